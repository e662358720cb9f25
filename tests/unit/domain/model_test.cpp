#include "domain/model.hpp"

#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

int padded(int vocabulary, int multiple, int tensor_parallel) {
  ModelSpec model = gpt_model(1, 1024, 16, 2048, vocabulary);
  model.vocabulary_multiple = multiple;
  return padded_vocabulary(model, tensor_parallel);
}

}  // namespace

TEST_CASE("A12: the vocabulary is padded up to a multiple of k times the TP degree", "[model]") {
  // ceil(49954/16)*16 = 3123*16 = 49968; ceil(49954/2048)*2048 = 25*2048 = 51200
  CHECK(padded(49954, 1, 16) == 49968);
  CHECK(padded(151552, 1, 6) == 151554);
  CHECK(padded(50257, 1, 8) == 50264);
  CHECK(padded(32000, 1, 8) == 32000);
  CHECK(padded(49954, 128, 16) == 51200);
  CHECK(padded(151552, 128, 6) == 152064);
  CHECK(padded(50257, 128, 8) == 51200);
  CHECK(padded(32000, 128, 8) == 32768);
}

TEST_CASE("A11: 28 heads allow the TP degrees 1, 2, 4 and 7 of up to 8", "[model]") {
  const ModelSpec model = gpt_model(2, 3584, 28);
  CHECK(allowed_tensor_parallel(model, 8) == std::vector<int>{1, 2, 4, 7});
  CHECK(tensor_parallel_fault(model, 8) == "28 heads are not a multiple of 8");
  CHECK(tensor_parallel_fault(gpt_model(2, 4096, 64), 3) == "64 heads are not a multiple of 3");
}

TEST_CASE("key/value groups, feed-forward width and split sequence limit the TP degree too", "[model]") {
  ModelSpec model = llama_model(2, 4096, 32, 4, 14336, 32000);
  CHECK(tensor_parallel_fault(model, 8) == "4 key/value groups are not a multiple of 8");
  model.kinds[1].attention->kv_heads = 8;
  CHECK(tensor_parallel_fault(model, 8).empty());
  model.kinds[1].mlp->ffn = 14340;
  CHECK(tensor_parallel_fault(model, 8) == "14340 feed-forward columns are not a multiple of 8");
  model.kinds[1].mlp->ffn = 14336;
  model.sequence = 1001;
  CHECK(tensor_parallel_fault(model, 8).empty());
  model.sequence_parallel = true;
  CHECK(tensor_parallel_fault(model, 8) == "1001 sequence positions are not a multiple of 8");
}

TEST_CASE("a TP degree of 0 is refused and not divided by", "[model]") {
  CHECK(tensor_parallel_fault(gpt_model(1, 1024, 16), 0) == "TP degree 0 is less than 1");
}

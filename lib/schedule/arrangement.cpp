#include "schedule/arrangement.hpp"

namespace hpplan {

int chunks_of(Arrangement arrangement, int devices) {
  switch (arrangement) {
    case Arrangement::OnePerDevice: return 1;
    case Arrangement::Vee:
    case Arrangement::TwoWay: return 2;
    case Arrangement::Ring: return devices / 2;
    case Arrangement::Loop:
    case Arrangement::Free: return 0;
  }
  return 0;
}

bool holds_replicas(Arrangement arrangement) {
  return arrangement == Arrangement::TwoWay || arrangement == Arrangement::Ring;
}

std::vector<std::vector<PartPlace>> paths_of(Arrangement arrangement, int devices, int chunks) {
  std::vector<std::vector<PartPlace>> paths;
  const auto new_path = [&]() -> std::vector<PartPlace>& { return paths.emplace_back(); };
  switch (arrangement) {
    case Arrangement::OnePerDevice:
    case Arrangement::Loop: {
      std::vector<PartPlace>& path = new_path();
      for (int part = 0; part < devices * chunks; ++part) path.push_back({part % devices, part / devices});
      break;
    }
    case Arrangement::Vee: {
      std::vector<PartPlace>& path = new_path();
      for (int device = 0; device < devices; ++device) path.push_back({device, 0});
      for (int device = devices; device-- > 0;) path.push_back({device, 1});
      break;
    }
    case Arrangement::TwoWay: {
      std::vector<PartPlace>& down = new_path();
      for (int device = 0; device < devices; ++device) down.push_back({device, 0});
      std::vector<PartPlace>& up = new_path();
      for (int device = devices; device-- > 0;) up.push_back({device, 1});
      break;
    }
    case Arrangement::Ring:
      // Even pipelines start at device 2j and go up, odd ones at 2j+1 and go down, around the ring.
      for (int j = 0; j < devices / 2; ++j) {
        std::vector<PartPlace>& path = new_path();
        for (int s = 0; s < devices; ++s) {
          const int place = j % 2 == 0 ? 2 * j + s : 2 * j + 1 - s;
          path.push_back({(place % devices + devices) % devices, j});
        }
      }
      break;
    case Arrangement::Free: break;
  }
  return paths;
}

}  // namespace hpplan

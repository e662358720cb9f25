#include "support/catch.hpp"  // nothing else: this file is there for its precompiled header

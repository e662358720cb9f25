#pragma once

namespace hpplan {

/// Lets threads that wait for the next parallel loop sleep instead of spin, unless the user's environment says how they
/// wait. The search has many short loops: on a machine that runs other things too, as nodes that share a sweep do,
/// spinning threads hold up the one that works, and a search took two to three times as long.
/// libgomp reads how to wait when it is loaded, before anything of this program can run: so the program starts itself
/// once more with the policy set. Verbs that search call it before they read or write anything; the others need not
/// start twice. Where the program cannot be started again, it returns and nothing has changed.
///   arguments   of main
void let_waiting_threads_sleep(char** arguments);

}  // namespace hpplan

// The one place where CPU threads start. NASCENT_THREADS, a CMake option, chooses what they are: OpenMP's, whose pool
// oneDNN works on too, or std::thread's for ThreadSanitizer, which cannot see how libgomp's threads wait for each other.
#pragma once

namespace nascent {

extern const char* const kThreads;  // "OpenMP" or "std::thread"

// How many this process may use: its affinity mask.
int usable_threads();

// How many the libraries may use that work on OpenMP's pool. With std::thread it stays at one.
void set_library_threads(int threads);

// What one part does: a callable (int part, int parts), which outlives the call it is given to.
class Part {
 public:
  template <class F>
  explicit Part(const F& f)
      : object_(&f),
        call_([](const void* object, int part, int parts) { (*static_cast<const F*>(object))(part, parts); }) {}
  void operator()(int part, int parts) const { call_(object_, part, parts); }

 private:
  const void* object_;
  void (*call_)(const void* object, int part, int parts);
};

// Calls f for each part at once, the caller's thread doing part 0. `parts` is what is wished for; fewer may be there.
// What a part throws is thrown here, one of them, once every part has ended.
void run_parts(int parts, Part f);

}  // namespace nascent

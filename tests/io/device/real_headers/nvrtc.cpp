#include <nvrtc.h>

#include "alike.h"
#include "cuda/nvrtc.h"

using spdl::cuda::CompilerStatus;
using spdl::cuda::Nvrtc;

SAME_FUNCTION(Nvrtc, error_string, nvrtcGetErrorString);
SAME_FUNCTION(Nvrtc, version, nvrtcVersion);
SAME_FUNCTION(Nvrtc, num_architectures, nvrtcGetNumSupportedArchs);
SAME_FUNCTION(Nvrtc, architectures, nvrtcGetSupportedArchs);
SAME_FUNCTION(Nvrtc, create_program, nvrtcCreateProgram);
SAME_FUNCTION(Nvrtc, destroy_program, nvrtcDestroyProgram);
SAME_FUNCTION(Nvrtc, compile, nvrtcCompileProgram);
SAME_FUNCTION(Nvrtc, log_size, nvrtcGetProgramLogSize);
SAME_FUNCTION(Nvrtc, log, nvrtcGetProgramLog);
SAME_FUNCTION(Nvrtc, assembly_size, nvrtcGetPTXSize);
SAME_FUNCTION(Nvrtc, assembly, nvrtcGetPTX);
SAME_FUNCTION(Nvrtc, binary_size, nvrtcGetCUBINSize);
SAME_FUNCTION(Nvrtc, binary, nvrtcGetCUBIN);

SAME_VALUE(CompilerStatus::kSuccess, NVRTC_SUCCESS);
SAME_VALUE(CompilerStatus::kCompilation, NVRTC_ERROR_COMPILATION);

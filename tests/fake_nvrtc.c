// A stand-in for NVRTC. The tests have compiled the kernels for the processor already: what it "compiles" is the name of
// that library, which the fake driver loads.

#include <stdlib.h>
#include <string.h>

int fake_enter(const char* name);
void fake_mistake(void);

enum { SUCCESS = 0, INVALID_INPUT = 3, COMPILATION = 6 };

typedef struct {
    int compiled;
} Program;

static const char* library(void) { return getenv("SPDL_TEST_KERNELS"); }

const char* nvrtcGetErrorString(int status) { return status == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "an error"; }

int nvrtcVersion(int* major, int* minor) {
    *major = 12;
    *minor = 9;
    return SUCCESS;
}

int nvrtcGetNumSupportedArchs(int* count) {
    *count = 3;
    return SUCCESS;
}

int nvrtcGetSupportedArchs(int* architectures) {
    const int known[] = {80, 86, 90};
    memcpy(architectures, known, sizeof known);
    return SUCCESS;
}

int nvrtcCreateProgram(Program** program, const char* source, const char* name, int headers, const char* const* texts,
                       const char* const* names) {
    if (strstr(source, "__global__") == NULL || name == NULL || headers != 0 || texts != NULL || names != NULL) {
        return INVALID_INPUT;
    }
    *program = calloc(1, sizeof **program);
    return fake_enter(__func__);
}

int nvrtcDestroyProgram(Program** program) {
    free(*program);
    *program = NULL;
    return fake_enter(__func__);
}

int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    if (count != 2 || strcmp(options[0], "--gpu-architecture=sm_90") != 0 || strcmp(options[1], "--std=c++17") != 0) {
        fake_mistake();
    }
    program->compiled = 1;
    return fake_enter(__func__);
}

int nvrtcGetProgramLogSize(Program* program, size_t* size) {
    *size = sizeof "kernels.cu(1): error: what the compiler says";
    return program == NULL ? INVALID_INPUT : SUCCESS;
}

int nvrtcGetProgramLog(Program* program, char* log) {
    strcpy(log, "kernels.cu(1): error: what the compiler says");
    return program == NULL ? INVALID_INPUT : SUCCESS;
}

int nvrtcGetCUBINSize(Program* program, size_t* size) {
    *size = strlen(library()) + 1;
    return program->compiled ? SUCCESS : INVALID_INPUT;
}

int nvrtcGetCUBIN(Program* program, char* binary) {
    strcpy(binary, library());
    return program->compiled ? SUCCESS : INVALID_INPUT;
}

int nvrtcGetPTXSize(Program* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(Program* program, char* assembly) { return nvrtcGetCUBIN(program, assembly); }

// All kernels, one module.
#include "finish.h"
#include "mixed.h"
#include "resident.h"
#include "scores.h"
#include "streamed.h"
#include "tensor.h"

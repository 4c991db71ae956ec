package kernels

import _ "embed" // the text of eusn.ptx

// PTX is the module with all kernels of Names: text for compute capability 8.0,
// which every later device's driver compiles too. make ptx compiles the module
// from the .cu and .h files in this folder; BUILD records the compiler.
//
//go:embed eusn.ptx
var PTX string

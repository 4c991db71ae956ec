package kernels

import _ "embed" // the text of eusn.ptx

// PTX is the module with all kernels of Names: text for compute capability 8.0,
// which every later device's driver compiles too. It is made from the .cu and
// .h files next to it by make ptx; BUILD says with what.
//
//go:embed eusn.ptx
var PTX string

// Package cudatest is a driver without a GPU: a strict fake of libcuda.so.1.
// Tests compile and open it in the same way as the real driver, and a Runner
// executes the launches. driver/fake.h has its rules. Only tests import the
// package.
package cudatest

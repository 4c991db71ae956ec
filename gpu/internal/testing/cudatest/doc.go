// Package cudatest is a driver without a GPU: a strict fake of libcuda.so.1,
// compiled by the tests that use it and opened the same way as the real one,
// whose launches are handed to a Runner. Its rules are in driver/fake.h. It is
// imported by tests only.
package cudatest

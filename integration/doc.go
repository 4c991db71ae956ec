// Package integration holds the tests that need several packages, a real
// server or another program: who may import whom, the model file opened by
// NumPy, the whole stage on real data.
package integration

// Package bench measures this machine for "bench": the engines against the peak of
// its arithmetic, and the whole stage under a load that package load makes.
package bench

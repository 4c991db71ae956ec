// Package resize changes the number of partitions of a job that nobody works
// on: from any number to any other. Package pipeline's documentation
// ("Another number of partitions") has the protocol, and why each of its steps
// may be interrupted and repeated. It also lets a job continue with the states of another
// one that reads its input ("Another network"). This package has the steps; who drains the
// old partitions, with an engine, is the caller's.
package resize

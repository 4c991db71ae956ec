// Package resize changes the number of partitions of a job that nobody works
// on: from any number to any other. Package pipeline's documentation
// ("Another number of partitions") has the protocol, and why each of its steps
// may be interrupted and repeated. It also lets a job continue with the states of another
// one that reads its input ("Another network"). This package has the steps; who drains the
// old partitions, with an engine, is the caller's.
//
// # Files
//
//   - resize.go: changes the number of partitions in repeatable steps
//   - records.go: rewrites the entry of a job and the records of partitions
//   - mapping.go: switches the subject mapping of the server
//   - copies.go: waits for all copies of the input in a cluster
//   - states.go: divides states among the new partitions and compares digests
//   - replace.go: gives a job the network and states of another job
//   - abandon.go: reverts an incomplete change
package resize

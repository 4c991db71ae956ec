// Package plan computes the requirements of a plant: cores, memory, network, disk and servers.
// It measures the stage with the plant's model for some seconds (measure.go) and computes the
// rest (estimate.go, a pure function).
//
// tools/capacity compares the estimates with runs.
//
// # Files
//
//   - plan.go: defines the command plan
//   - measure.go: measures the cost of stage and server on this machine
//   - replicas.go: measures the cost of replicated storage
//   - parts.go: divides measured CPU time among the parts of a message's way
//   - estimate.go: computes the servers, memory and disk that a plant needs (docs/capacity.md)
package plan

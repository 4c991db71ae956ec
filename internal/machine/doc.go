// Package machine simulates the vibration of a rotating machine, as a data set
// ([Simulate]) or as the recording of a plant ([SimulatePlant]), with the same bits on
// every platform.
//
// # Files
//
//   - machine.go: simulates the vibration of a rotating machine
//   - draw.go: draws the random numbers and computes the sine of the simulation
//   - plant.go: simulates a plant of continuously running machines
package machine

// Package plan says what a plant needs: cores, memory, network, disk and servers. It
// measures the stage with the plant's model for some seconds (measure.go) and computes
// the rest (estimate.go, a pure function).
package plan

// Package judge computes the scores of novelty detectors on this machine's vectors: the bits
// of novelty.Detector.Score.
//
// # Files
//
//   - novelty.go: arranges detectors for the kernels and scores sequences
package judge

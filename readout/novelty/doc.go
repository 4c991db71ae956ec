// Package novelty measures how unlike the training part a feature vector is, and how often a
// sequence like the training's would be as unlike. Package internal/detect fits detectors; its
// documentation has the method and its sources.
//
// With features f that are centered and scaled, z_j = (f_j - Center_j) * Scale_j, and Axes V,
//
//	score = (|z|^2 - |V' z|^2) / Unit
//
// is the squared length of the residual outside of the directions of the training part;
// if there is a Usual, it is divided by what is usual at its place within them. With n scores
// of left-out training sequences,
//
//	p = (1 + those that are not smaller) / (n + 1)
//
// is at most alpha in a share alpha of sequences like the training's. Inputs are values that
// are linear in z: level, spread and pace of each channel, in deviations of the training
// sequences.
//
// # Files
//
//   - detector.go: scores how unlike the training data a sequence is
//   - usual.go: computes the usual size of the residual
package novelty

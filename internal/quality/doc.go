// Package quality says how good predictions are, beyond the share that is right: of
// each class precision, recall, F1 and the area under the ROC curve, and of the
// probabilities log-loss and calibration error.
//
// With k classes, s the scores of a sample and t the readout's temperature, the
// probability of class c is p_c = softmax(t s)_c. Of n labelled samples:
//
//	precision  of the samples predicted as c, the share that is c
//	recall     of the samples of c, the share that is predicted as c
//	F1         2 right / (predicted as c + of c)
//	AUROC      the chance that a sample of c has a larger p_c than one of another
//	           class; one half for equal ones
//	log-loss   mean of -log p at the label
//	ECE        mean over samples of |accuracy - mean p| of their bin, p being that of
//	           the predicted class: 15 bins of equal width
//	by chance  the mean ECE of labels drawn with the p: what is left of it where each p
//	           is exactly right, as n is not infinite
//
// Fawcett, "An introduction to ROC analysis", 2006; Guo et al., "On calibration of
// modern neural networks", 2017. The tests hold all of it to scikit-learn.
//
// # Files
//
//   - quality.go: computes precision, recall, F1, AUROC, log-loss and calibration error
//   - chance.go: computes the calibration error that occurs by chance
//   - sets.go: measures sets of classes
//   - numbers.go: measures predicted numbers and their intervals
package quality

// Package quality measures the quality of predictions, beyond the share that is right: for
// each class precision, recall, F1 and the area under the ROC curve, and for the probabilities
// log-loss and calibration error.
//
// With k classes, s the scores of a sample and t the readout's temperature, the probability of
// class c is p_c = softmax(t s)_c. For n labeled samples:
//
//	precision  share of class c among the samples predicted as c
//	recall     share predicted as c among the samples of c
//	F1         2 right / (predicted as c + of c)
//	AUROC      the chance that a sample of c has a larger p_c than a sample of another
//	           class; one half for equal p_c
//	against    AUROC of class c against the healthy class only, by s_c - s_healthy
//	log-loss   mean of -log p at the label
//	ECE        mean over samples of |accuracy - mean p| of their bin, for the p of
//	           the predicted class: 15 bins of equal width
//	by chance  the mean ECE of labels drawn with the p: the rest if each p
//	           is exactly right, because n is finite
//
// Fawcett, "An introduction to ROC analysis", 2006; Guo et al., "On calibration of modern
// neural networks", 2017. The tests compare every figure with scikit-learn.
//
// # Files
//
//   - quality.go: computes precision, recall, F1, AUROC, log-loss and calibration error
//   - chance.go: computes the calibration error that occurs by chance
//   - sets.go: measures sets of classes
//   - numbers.go: measures predicted numbers and their intervals
package quality

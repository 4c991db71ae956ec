// Package embedding learns a vector for each word of a vocabulary from labelled
// documents, inside a network that classifies them: the way the paper's text
// experiments get their inputs (C. Gallicchio, arXiv 2203.09382). It is for
// experiments only.
//
// # Network
//
// A document is Steps tokens; a shorter one gets token 0 in front, which has a
// vector like any other. E (Words x Width) are the vectors, x the Steps vectors
// of a document one after the other, so that a word's place counts:
//
//	a = max(0, x*W + b)	Hidden units
//	s = a*V + c	one score and a sigmoid for two classes, else a softmax
//
// The loss is the mean cross-entropy over a batch. Weights begin as Keras begins
// them: E uniform in [-.05, .05], W and V uniform with variance
// 2/(inputs+outputs), biases zero.
//
// # Learning
//
// Gradients are exact. RMSProp (Hinton, lecture 6e of "Neural Networks for
// Machine Learning", 2012) divides each by the root of a running mean of its
// square, with Keras' defaults and epsilon where the Keras of the paper's time
// (2.x) has it, next to the root:
//
//	v = .9*v + .1*g*g	w = w - .001*g / (sqrt(v) + 1e-7)
//
// The vectors of words that a batch does not hold have gradient 0. Their v still
// decays, so sparse and dense updates are the same. So it is in Keras: its sparse
// update decays the whole accumulator, too, before it adds the squares of the
// rows in the batch.
//
// Batches are of 32 documents in a new order each epoch. After each epoch the
// network is asked about the validation documents; it stops when their loss has
// not fallen for Patience epochs.
//
// Everything is float64. The result of a training depends only on its data,
// options and seed, never on threads or time. On other architectures than amd64,
// whose math.Exp differs in the last bits, the result may differ.
//
// # Files
//
//   - network.go: defines the embedding network and computes word vectors
//   - train.go: trains the embedding network
package embedding

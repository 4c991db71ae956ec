// Package embedding learns a vector for each word of a vocabulary from labeled documents,
// inside a network that classifies the documents: the input method of the paper's text
// experiments (C. Gallicchio, arXiv 2203.09382). The package is only for experiments.
//
// # Network
//
// A document is Steps tokens; a shorter document gets leading tokens 0, which have a
// vector like any other token. E (Words x Width) are the vectors, x the concatenated
// vectors of a document, so that a word's place counts:
//
//	a = max(0, x*W + b)	Hidden units
//	s = a*V + c	one score and a sigmoid for two classes, else a softmax
//
// The loss is the mean cross-entropy over a batch. Initial weights are those of Keras: E
// uniform in [-.05, .05], W and V uniform with variance 2/(inputs+outputs), biases zero.
//
// # Learning
//
// Gradients are exact. RMSProp (Hinton, lecture 6e of "Neural Networks for Machine
// Learning", 2012) divides each gradient by the root of a running mean of its square,
// with Keras' defaults and epsilon at its place in the Keras of the paper's time (2.x),
// next to the root:
//
//	v = .9*v + .1*g*g	w = w - .001*g / (sqrt(v) + 1e-7)
//
// The vectors of words outside a batch have gradient 0. Their v still decays, so sparse
// and dense updates are the same. Keras behaves in the same way: its sparse update also
// decays the whole accumulator before it adds the squares of the rows in the batch.
//
// Batches are of 32 documents in a new order each epoch. After each epoch the validation
// loss is computed; training stops when the loss has not fallen for Patience epochs.
//
// All numbers are float64. The result of a training depends only on its data, options and
// seed, never on threads or time. On other architectures than amd64, whose math.Exp
// differs in the last bits, the result may differ.
//
// # Files
//
//   - network.go: defines the embedding network and computes word vectors
//   - train.go: trains the embedding network
package embedding

// Package baseline holds the trained networks that the paper compares
// reservoirs with (C. Gallicchio, arXiv 2203.09382): a recurrent layer and a
// dense output, all weights learnt by gradient descent through time. It is for
// experiments only: nothing live uses it.
//
// # Models
//
// N units, C channels, K classes. States and samples are row vectors, so that
// x*Wx has N columns; h(0) = 0; sigma is the logistic function, . the product
// of elements.
//
//	rnn   h(t) = tanh(x(t)*Wx + h(t-1)*W + b)
//	arnn  h(t) = h(t-1) + eps*tanh(x(t)*Wx + h(t-1)*(W - W' - gamma*I) + b)
//	gru   z = sigma(x*Wz + h*Uz + bz + cz)        h = h(t-1), x = x(t)
//	      r = sigma(x*Wr + h*Ur + br + cr)
//	      y = tanh(x*Wy + by + r.(h*Uy + cy))
//	      h(t) = z.h + (1-z).y
//
// arnn is the update of Chang et al., AntisymmetricRNN (arXiv 1902.09689); all
// N*N weights of W are learnt though only W - W' matters. gru is the form with
// a recurrent bias that the reset gate scales too, as in Keras (reset_after)
// and PyTorch. The output layer sees the last state: for two classes one
// sigmoid, otherwise a softmax over K. The loss is the mean cross-entropy.
// Parameters counts as the paper does:
//
//	rnn, arnn  N*N + N*C + N    + output
//	gru        3*(N*N + N*C + 2*N) + output
//	output     K*(N+1), for two classes N+1
//
// Weights begin as Keras begins them: Wx and the output uniform with variance
// 2/(inputs+outputs) (Glorot and Bengio 2010), Wx of arnn normal with that
// variance; W orthogonal (of gru its N x 3N matrix has orthogonal rows, scaled
// to unit length); biases zero.
//
// # Learning
//
// Series of a batch are laid so that they end together; one that is shorter
// begins later, in state 0, and nothing is fed in before. Gradients are exact:
// back-propagation through all steps, none cut or clipped. Adam is that of
// Kingma and Ba (arXiv 1412.6980) with beta1 .9, beta2 .999 and, as in Keras,
// epsilon 1e-7 with the uncorrected second moment.
//
// Everything is float64. The result of a training depends only on its data,
// options and seed, never on threads or time. On other architectures than amd64,
// whose math.Exp differs in the last bits, the result may differ.
package baseline

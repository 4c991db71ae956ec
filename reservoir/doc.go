// Package reservoir holds the untrained part: the recipe (Spec), the weights
// drawn from it (Network), the contract of every engine (Engine), and the model
// file (Model). The package knows no messages and no data files. The engines
// are in packages cpu and gpu.
//
// Most Go programs need only package classify.
//
// The following text is enough to write another program that reads a model
// file, or redraws its weights, and computes every state, feature, score and
// class bit for bit; docs/model_in_numpy.py is an example, in float64. All
// numbers are IEEE 754; "float32" means that an operation is rounded to float32
// once, and fma(a, b, c) is a*b + c, rounded once.
//
// # The input
//
// A sample has Channels values x[c]. If the model has a front end, x is the
// output of Front.Run. The network receives Inputs values u, in float32, one
// rounding for each operation:
//
//	u[c]            = (x[c] - norm.mean[c]) * norm.scale[c]      with Standardize; else x[c]
//	u[Channels + c] = (x[c] - previous x[c]) * norm.diff[c]      with Difference: Channels more;
//	                                                             0 for the first sample
//
// The previous x is the raw value. A sample beyond MaxInput in magnitude, or
// not finite, is refused before any state changes.
//
// # The step
//
// This is the step of the paper's kinds; docs/mixed-bank.md describes the step
// of kind mixed, with features, state and the drawing of weights.
//
// Every reservoir is h' = keep*h + gain*tanh(M h + U u + b); see Kind. A
// network is a bank of Members independent blocks that share the input. In
// canonical arithmetic, for each unit i of each member, in float32, from h = 0:
//
//	z  = b[i]
//	z  = fma(U[i][c], u[inputs[c]], z)   the inputs the member sees, ascending
//	z  = fma(M[i][k], h[k], z)           units k ascending; resn: only k = (i-1) mod N
//	v  = canon.Tanh(z)
//	h' = fma(gain, v, keep*h)            keep*h is rounded by itself
//
// All units' h' come from the same h. Engines may vectorize across units,
// members and streams, never inside a chain, so all engines give the same bits;
// canon.FMA and canon.Tanh define the operations (canon.TanhTable has the
// coefficients, and Tanh describes their use). A Euler state neither forgets
// nor damps a difference: C. Gallicchio, "Euler State Networks: Non-dissipative
// Reservoir Computing", arXiv 2203.09382.
//
// # Features
//
// After each sample every unit adds the z, v and h' of the sample to the
// accumulators that the used features need; all begin with 0, max with -1:
//
//	sum low   += h'                        float32            mean, std
//	square low = fma(h', h', square low)   float32            std
//	positive  += 1 if z > 0                a 32-bit count     ppv
//	max        = v if v > max              float32            max
//
// If the count of samples since the reset, including this sample, is a multiple
// of FoldEvery, each low sum is then added to its high sum (float32, from 0)
// and becomes 0. The features of n samples, in float32 with one rounding for
// each operation, n rounded to float32 first:
//
//	last = h
//	mean = (sum high + sum low) / n
//	ppv  = float32(positive) / n
//	max  = max
//	std  = sqrt(d), d = fma(-mean, mean, (square high + square low) / n); 0 unless d is positive
//
// Without a sample all are 0. The vector has, for each member in order, for
// each used feature in the order last, mean, ppv, max, std (in any order of the
// recipe), a value for each unit. A readout's scores are chains over the
// vector, float32:
//
//	score[k] = intercept[k], then fma(weights[k][j], d[j], score[k]) for j ascending
//	d[j]     = feature[j] - center[j]; of a readout with limits: limit[j] if d[j] is larger,
//	           -limit[j] if d[j] is smaller than -limit[j]
//
// The class is the largest score, the first of equals; with two classes there
// is one score, and the class is 1 if the score is positive. Package
// internal/engine documents the places of unit states and accumulators in a
// stored state.
//
// # The model file
//
// One safetensors file: 8 bytes little-endian header length, a JSON header that
// names each tensor's dtype, shape and byte range (data_offsets, from the end
// of the header), then the tensors. All other data are in the header's
// __metadata__, whose values must be strings:
//
//	eusn.version    "1"
//	eusn.spec       JSON of Spec
//	eusn.policy     JSON of Policy
//	eusn.channels   JSON list of channel names
//	eusn.front      JSON of Front; absent without a front end
//	eusn.readouts   JSON list of readouts; all entries except the first two are optional:
//	                name         text
//	                classes      list of names; of a regression the number's name
//	                temperature  divisor of the scores for probabilities
//	                limited      true: the readout has a tensor of limits
//	                coverage     JSON of readout.Coverage: the readout makes sets of classes
//	                novelty      {"level", "unit", "detects", "usual", "inputs", "means", "later"}: the
//	                             readout has a detector. detects: the class reports novelty;
//	                             usual: JSON of novelty.Usual; inputs: the detector reads inputs;
//	                             means: it reads running means;
//	                             later: JSON of novelty.Later
//	                early        {"temperature", "limited", "rule"}: the readout has a readout
//	                             for prefixes; rule: JSON of readout.EarlyRule
//	                interval     JSON of readout.Interval: the readout is a regression
//	                random       true if the readout has random features (readout.RandomFeatures)
//	                segments     true if the readout has weights of segments (readout.SegmentWeights)
//	                abstain      JSON of readout.AbstainRule: the readout may abstain
//	eusn.training   JSON of Training
//	eusn.sha256     the fingerprint: SHA-256, in hexadecimal, of the file
//	                without this entry; compared with the content if
//	                present; other programs may omit the entry
//
// Tensors are little-endian and row-major, F32 except the input lists, which
// are I32. R counts members and K readouts, from 0, in decimal; N is Units:
//
//	norm.mean, norm.scale, norm.diff      [Channels]    always present
//	member.R.inputs                       [inputs of the member]    ascending; inputs of taps, in any order
//	member.R.lags                         [inputs of the member]    only tap members
//	member.R.recurrent                    [N, N]: weight of unit i from unit k in row i;
//	                                      resn: [N], of unit i from unit (i-1) mod N
//	                                      tap members: [N], of unit i from itself
//	member.R.input                        [N, inputs of the member]
//	member.R.bias                         [N]
//	member.R.keep_gain                    [2]
//	readout.K.center                         [Features]
//	readout.K.limit                          [Features]    only of readouts with limits; positive
//	readout.K.weights                        [Columns, Features]
//	readout.K.intercept                      [Columns]
//	readout.K.random.center                  [statistics]    these four only of readouts with random features
//	readout.K.random.weights                 [units, statistics]    of Front.Statistics
//	readout.K.random.bias                    [units]
//	readout.K.random.out                     [units]
//	readout.K.segments.center                [statistics]    these three only of readouts with weights of
//	readout.K.segments.limit                 [statistics]    segments: Front.Statistics
//	readout.K.segments.weights               [Columns, statistics]
//	readout.K.early.center, .limit, .weights, .intercept      as the four above, of the readout for prefixes
//	readout.K.novelty.center                 [Features]    these four only of readouts with a detector
//	readout.K.novelty.scale                  [Features]
//	readout.K.novelty.axes                   [dimensions, Features]
//	readout.K.novelty.left                   [sequences]    scores of left-out training sequences, ascending
//	readout.K.novelty.linear                 [places]    these two only with usual
//	readout.K.novelty.square                 [places]
//	readout.K.novelty.inputs                 [values, Features]    only of a detector that reads inputs
//	readout.K.novelty.means.center           [statistics]    these two only of a detector that reads
//	readout.K.novelty.means.axes             [directions, statistics]    running means: Front.Statistics
//
// Columns is the number of classes, 1 for two classes. The tensors are in this
// order, without gaps: the three of the norm, then the five or six of each
// member in turn, then the three to twenty-one of each readout in turn. A reader
// finds tensors by name and range, in any order. The same model gives the same
// bytes, and so the same fingerprint: the header is JSON without blanks, keys
// sorted by their bytes within each object ("<", ">" and "&" written \u003c,
// \u003e, \u0026), fields of the JSON texts inside in the order of their Go
// types, and blanks after the header until its length is a multiple of 8. Names
// (of channels, readouts, classes, the data set) are UTF-8 of at most 256 bytes
// without control characters.
//
// # The generator
//
// Weights follow from the recipe: Draw makes the same weights on every
// platform, and "model verify" compares a file's weights with Draw. All modulo
// 2^64:
//
//	mix(z):  z ^= z>>30; z *= 0xbf58476d1ce4e5b9
//	         z ^= z>>27; z *= 0x94d049bb133111eb;  z ^= z>>31
//	bits(k) = mix(key + (k+1)*0x9e3779b97f4a7c15)      k = 0, 1, 2, ...
//	key     = mix(mix(seed) + 16*member + tensor)
//	tensor    0 scales, 1 recurrent, 2 input, 3 bias, 4 subset
//
// (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.) With i = bits(k)>>40, 24 bits:
//
//	u(k) = (2i + 1 - 2^24) / 2^24     in (-1, 1), never 0, exact in float32
//
// A scale is log-uniform in [lo, hi] by bisection on the 24 bits of i, most
// significant first: m = sqrt(a*b) becomes the new a if the bit is 1, else the
// new b, from a, b = lo, hi; the scale is the last sqrt(a*b). If lo equals hi,
// the scale is lo. Only products and square roots, which every platform rounds
// alike (no logarithm is). The k of each scale, in the tensor of scales:
//
//	0 eps, 1 gamma, 2 recurrent or eps_rho, 3 input, 4 bias, 5 spectral radius, 6 leak
//
// Weights are computed in float64, in the written order, from left to right,
// and rounded once to float32 (then, for precision tf32, to 10 explicit
// mantissa bits, ties to even). Each weight has its own k, from the sequence of
// its tensor; i and j count units:
//
//	recurrent, eusn:  w * (u(iN+j) - u(jN+i)) for j < i, and its negative for [j][i]; diagonal -gamma
//	                  w = recurrent scale, or eps_rho / eps / (2*sqrt(2*N/3))
//	recurrent, esn:   v * u(iN+j), v = spectral radius / sqrt(N) * (6/sqrt(12))
//	recurrent, resn:  spectral radius, for unit i from unit (i-1) mod N
//	input:            input scale * u(i*Inputs + c), c the transformed input's index
//	bias:             bias scale * u(i)
//	keep, gain        eusn: 1, eps; esn, resn: 1-leak, leak      rounded only to float32
//
// A member sees all Inputs; but if Subset is set and there are more than 3, the
// member sees a part, from the sequence of the subset: count = floor(scale
// drawn with k = 0 from lo = 1, hi = min(Inputs, Subset) + 1), at most hi - 1.
// Beginning with 0, 1, 2, ..., for k = 0 to count-1 place k is swapped with
// place k + ((bits(k+1)>>32) * (Inputs-k) >> 32); the first count places,
// sorted, are the inputs.
//
// Package internal/testing/enginetest tests every engine. Package
// internal/track advances the sequences of a stream, for the stage and for
// training.
//
// # Files
//
//   - spec.go: defines the recipe of a network
//   - taps.go: defines the recipe of networks of kind mixed (docs/mixed-bank.md)
//   - recipes.go: names ready recipes (Bank, Paper)
//   - defaults.go: completes recipes
//   - policy.go: defines the policies that cut streams into sequences
//   - front.go: transforms samples before the network (front end)
//   - means.go: computes statistics of running means
//   - segments.go: computes statistics of segments of a sequence
//   - regimes.go: standardizes channels within operating regimes
//   - inputs.go: computes the input transform and ranges from training data
//   - network.go: checks a network and transforms inputs
//   - model.go: defines networks, models and trainings
//   - lengths.go: compares sequence lengths with those of the training
//   - modelfile.go: writes and reads model files
//   - safetensors.go: reads tensors of a model file
//   - draw.go: draws weights from a seed
//   - draw_mixed.go: draws weights of kind mixed
//   - splice.go: computes the features of spliced sequences
//   - engine.go: defines the Engine contract
package reservoir

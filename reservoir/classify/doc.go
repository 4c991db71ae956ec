// Package classify is the library for programs that classify series and streams in memory:
// Train makes a model from labelled series, Predict classifies series with it, NewStream a
// stream sample by sample. Features computes the features, for a readout of your own. See
// the examples. Models are files, too: see reservoir.Load.
//
// # Files
//
//   - train.go: trains a classifier on series
//   - series.go: computes the features of series and predicts them
//   - stream.go: classifies one stream
package classify

package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/offline/embedding"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// The paper's embedding network: tokens of a document, numbers in a word's vector, hidden
// units, most epochs in total and without a smaller validation loss, and the share of the
// training documents held out for validation.
const (
	embedTokens   = 200
	embedWidth    = 32
	embedHidden   = 128
	embedEpochs   = 100
	embedPatience = 10
	embedHeldOut  = 0.33
)

// EmbedOptions configure the conversion of token lists to series of vectors.
type EmbedOptions struct {
	Words  int // vocabulary: smaller ids; 0 means DefaultNumWords
	Tokens int // of each document, the samples of each series; 0 means 200
	// FromStart takes the first tokens of a longer document; otherwise the last tokens,
	// as Keras does by default.
	FromStart bool
	Epochs    int // the largest number; 0 means 100
	// LastEpoch takes the vectors of the last epoch; otherwise of the epoch with the
	// smallest validation loss.
	LastEpoch bool
	Seed      uint64 // of the initial weights and the order of batches
	Tool      string // for the provenance
}

// EmbedReport is the result of learning the vectors.
type EmbedReport struct {
	Learned   int        `json:"learned"`   // documents
	Validated int        `json:"validated"` // documents
	Best      EmbedEpoch `json:"best"`      // the epoch of the smallest validation loss
	Last      EmbedEpoch `json:"last"`
	Taken     int        `json:"taken"` // the epoch of the vectors in the archive
}

// EmbedEpoch is the validation result after an epoch.
type EmbedEpoch = embedding.Epoch

// Embed converts token lists to series, as the paper does with IMDB and Reuters, and
// writes a dataset archive at path: each document is Tokens samples of 32 channels, the
// vectors of its words; shorter documents get leading vectors of token 0. The vectors are
// learned in a network that classifies the documents (200 x 32 inputs, 128 rectified
// units; RMSProp; see package internal/offline/embedding). No label of the test part is
// used: the network learns from the first 67 % of the labeled training documents, in
// their order, and stops by the loss over the rest, 10 epochs after its minimum. The
// result is a function of d and o, on any number of threads. The archive is never in
// memory: it may be gigabytes.
//
// A class of only the test part is refused.
func Embed(ctx context.Context, path string, d *archive.Dataset, o EmbedOptions, progress archive.Progress) (EmbedReport, error) {
	o.Words, o.Tokens, o.Epochs = cmp.Or(o.Words, DefaultNumWords), cmp.Or(o.Tokens, embedTokens), cmp.Or(o.Epochs, embedEpochs)
	var r EmbedReport
	if err := o.validate(d); err != nil {
		return r, fmt.Errorf("offline: embed: data set %q: %w", d.Name, err)
	}
	learn, validation := o.splitDocuments(d)
	r.Learned, r.Validated = len(learn), len(validation)
	net, err := embedding.New(embedding.Spec{
		Words: o.Words, Width: embedWidth, Steps: o.Tokens, Hidden: embedHidden, Classes: len(d.Classes), Seed: o.Seed,
	})
	if err != nil {
		return r, fmt.Errorf("offline: embed: data set %q: %w", d.Name, err)
	}
	told, err := net.Train(ctx, learn, validation, embedding.Options{
		Epochs: o.Epochs, Patience: embedPatience, Last: o.LastEpoch,
		Batch: func(done, expected int) {
			progress.Report(int64(done), int64(expected), "documents gone through")
		},
	})
	if err != nil {
		return r, fmt.Errorf("offline: embed: data set %q: %w", d.Name, err)
	}
	r.Best, r.Last, r.Taken = told.Best, told.Last, told.Best.Number
	if o.LastEpoch {
		r.Taken = told.Last.Number
	}
	if told.Last.Loss != told.Last.Loss && (o.LastEpoch || r.Taken == 0) {
		return r, fmt.Errorf("offline: embed: data set %q: the training diverged in epoch %d: try another seed", d.Name, told.Last.Number)
	}
	return r, o.writeArchive(ctx, path, d, net, r, progress)
}

// validate reports reasons why d cannot be embedded.
func (o EmbedOptions) validate(d *archive.Dataset) error {
	if min(o.Words, o.Tokens, o.Epochs) < 1 {
		return fmt.Errorf("%d words, %d tokens, %d epochs, want at least 1 of each", o.Words, o.Tokens, o.Epochs)
	}
	if err := errors.Unwrap(d.Validate()); err != nil { // without its prefix
		return err
	}
	if len(d.Channels) > 0 {
		return fmt.Errorf("%d channels, want token lists", len(d.Channels))
	}
	var documents [2][]int // of each class, by part
	for k, part := range splits {
		documents[k] = make([]int, len(d.Classes))
		for _, i := range d.Part(part) {
			s := &d.Series[i]
			if t := slices.IndexFunc(s.Tokens, func(t int32) bool { return t < 0 || int(t) >= o.Words }); t >= 0 {
				return fmt.Errorf("series %q: token %d is %d, want 0 to %d: import it with a vocabulary of %d", s.ID, t, s.Tokens[t], o.Words-1, o.Words)
			}
			if s.Label >= 0 {
				documents[k][s.Label]++
			}
		}
	}
	for c, n := range documents[1] {
		if n > 0 && documents[0][c] == 0 {
			return fmt.Errorf("class %q has test documents and no training document: are both parts of the same data set?", d.Classes[c])
		}
	}
	learn, validation := o.splitDocuments(d)
	another := func(x embedding.Document) bool { return x.Class != learn[0].Class }
	if len(validation) == 0 || !slices.ContainsFunc(learn, another) {
		return fmt.Errorf("of the %d labeled training documents the first %d are for learning and the rest for validation: want at least one of each, and at least two classes for learning; shuffle documents that are sorted by class", len(learn)+len(validation), len(learn))
	}
	return nil
}

// splitDocuments returns the documents for learning and for validation. Keras' fit, given
// a validation share, holds out the last documents, and computes their number as here: of
// 600 it learns from 401.
func (o EmbedOptions) splitDocuments(d *archive.Dataset) (learn, validation []embedding.Document) {
	var all []embedding.Document
	for _, i := range d.Part(archive.Train) {
		if s := &d.Series[i]; s.Label >= 0 {
			all = append(all, embedding.Document{Tokens: o.cutTokens(s.Tokens), Class: s.Label})
		}
	}
	heldOut := embedHeldOut // not a constant: its rounding is part of the result
	at := int(math.Floor(float64(len(all)) * (1 - heldOut)))
	return all[:at], all[at:]
}

// cutTokens returns the used tokens of a document.
func (o EmbedOptions) cutTokens(tokens []int32) []int32 {
	switch n := len(tokens); {
	case n <= o.Tokens:
		return tokens
	case o.FromStart:
		return tokens[:o.Tokens]
	default:
		return tokens[n-o.Tokens:]
	}
}

// writeArchive writes the archive.
func (o EmbedOptions) writeArchive(ctx context.Context, path string, d *archive.Dataset, net *embedding.Network, r EmbedReport, progress archive.Progress) error {
	head := &archive.Dataset{Name: d.Name, Channels: channelNames(embedWidth), Classes: d.Classes, Source: d.Source}
	head.Source.Format, head.Source.Tool = "embedded "+d.Source.Format, o.Tool
	head.Source.Note = o.addNote(d.Source.Note, r)
	w, err := archive.NewDatasetWriter(path, head, int64(len(d.Series))*int64(o.Tokens)*embedWidth, len(d.Series))
	if err != nil {
		return err
	}
	defer w.Abort()
	values := make([]float32, o.Tokens*embedWidth)
	for i := range d.Series {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s := d.Series[i]
		tokens := o.cutTokens(s.Tokens)
		for t := range o.Tokens {
			word := int32(0)
			if k := t - (o.Tokens - len(tokens)); k >= 0 {
				word = tokens[k]
			}
			for c, v := range net.Vector(word) {
				values[t*embedWidth+c] = float32(v)
			}
		}
		s.Tokens, s.Values = nil, values
		if err := w.Write(&s); err != nil {
			return err
		}
		progress.Report(int64(i+1), int64(len(d.Series)), "series written")
	}
	return w.Close()
}

// addNote adds the origin of the vectors to the archive's note.
func (o EmbedOptions) addNote(before string, r EmbedReport) string {
	side := "last"
	if o.FromStart {
		side = "first"
	}
	n := fmt.Sprintf("vectors of %d words learned from %d training documents, of each the %s %d tokens; seed %d; epoch %d of %d; best validation loss %.4f, accuracy %.4f",
		o.Words, r.Learned, side, o.Tokens, o.Seed, r.Taken, r.Last.Number, r.Best.Loss, r.Best.Accuracy)
	if before != "" {
		n = before + "; " + n
	}
	return n
}

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/paper"
)

// displayName returns a model's name in the paper.
func displayName(model string) string {
	switch model {
	case "eusn":
		return "EuSN"
	case "esn":
		return "ESN"
	case "resn":
		return "R-ESN"
	case "deepesn":
		return "DeepESN"
	case "rnn":
		return "RNN"
	case "arnn":
		return "A-RNN"
	case "gru":
		return "GRU"
	}
	return model
}

// classifier returns an entry's name in tsml files.
func (e *entry) classifier() string {
	if e.Model == e.section.Title || e.section.Protocol == paper.Compare { // banks have no search protocol
		return "EuSN-" + e.Model
	}
	return displayName(e.Model) + "-" + e.section.Title
}

// hasPredictions reports whether all values for tsml files are stored.
func (e *entry) hasPredictions() bool {
	for _, d := range e.Draws {
		if d.Predicted == nil {
			return false
		}
	}
	return e.Data.Truth != nil
}

// tsmlName returns the path of a draw's file, unique to the entry.
func (e *entry) tsmlName(draw int) string {
	return path.Join("tsml", fileName(e.classifier()), "Predictions", fileName(e.Dataset), fmt.Sprintf("testResample%d.csv", draw))
}

// fileName converts any text to one element of a path, and different texts to different
// elements.
func fileName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() == 0 {
		return "%" // of no other text
	}
	return b.String()
}

// tsml returns a draw's file.
func (e *entry) tsml(draw int) []byte {
	d, b := e.Draws[draw], &bytes.Buffer{}
	comment := "probabilities are 1 for the predicted class: a readout gives scores; the resample is a drawing of the weights on the archive's own split; fit time is training and test together"
	// Classes that cannot be distinguished from others, and never agree.
	classes, untaught := e.Data.Classes, e.Data.Classes
	if e.Data.Unknown > 0 {
		classes++
		comment += fmt.Sprintf("; class %d is for those without a training series", untaught)
	}
	if slices.Contains(d.Predicted, -1) {
		classes = untaught + 2
		comment += fmt.Sprintf("; predictions of such a class are %d", untaught+1)
	}
	fmt.Fprintf(b, "%s,%s,TEST,%d,MILLISECONDS,PREDICTIONS,%s\n", fileName(e.Dataset), fileName(e.classifier()), draw, comment)
	config, _ := json.Marshal(d.Config) // numbers: cannot fail
	fmt.Fprintf(b, "alpha=%s config=%s", number(d.Alpha), config)
	if t := d.Training; t.Epochs > 0 {
		fmt.Fprintf(b, " learning_rate=%s batch=%d max_epochs=%d epochs=%d", number(t.Rate), t.Batch, t.Epochs, d.Epochs)
	}
	fmt.Fprintf(b, "\n%s,%s,-1,-1,-1,%d,,-1,-1\n", number(d.Test.Accuracy()), number(d.Seconds*1000), classes)
	for i, class := range d.Predicted {
		truth := e.Data.Truth[i]
		if truth < 0 {
			truth = untaught
		}
		if class < 0 {
			class = untaught + 1
		}
		fmt.Fprintf(b, "%d,%d,", truth, class)
		for k := range classes {
			if k == class {
				b.WriteString(",1")
			} else {
				b.WriteString(",0")
			}
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

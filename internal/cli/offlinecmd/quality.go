package offlinecmd

import (
	"fmt"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/quality"
)

// printQuality prints the quality of the predictions of each class, if known.
func printQuality(a *cli.App, r *quality.Report) {
	if r == nil {
		return
	}
	a.Print("quality    of %d sequences: balanced accuracy %.4f, F1 %.4f, AUROC %s, log-loss %s, calibration error %s, by chance %s",
		r.Samples, r.Balanced, r.F1, shown(r.AUROC), shown(r.LogLoss), shown(r.ECE), shown(r.Chance))
	if len(r.Classes) > maxConfusion {
		a.Print("           (%d classes: the figures of each are in the --json output)", len(r.Classes))
		return
	}
	width := len("class")
	for _, c := range r.Classes {
		width = max(width, utf8.RuneCountInString(names.Cut(c.Class, models.MaxClassWidth)))
	}
	row := func(cells ...any) {
		a.Print("%s", fmt.Sprintf("%11s%*s %9v %9s %9s %9s %9s", append([]any{"", width}, cells...)...))
	}
	row("class", "sequences", "precision", "recall", "F1", "AUROC")
	for _, c := range r.Classes {
		row(names.Cut(c.Class, models.MaxClassWidth), c.Samples, shown(c.Precision), shown(c.Recall), shown(c.F1), shown(c.AUROC))
	}
}

// shown formats a number; nil: unknown.
func shown(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

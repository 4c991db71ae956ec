package offlinecmd

import (
	"fmt"
	"strings"
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
	printLikeHealthy(a, r)
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

// printLikeHealthy names the classes that can hardly be distinguished from the healthy class.
func printLikeHealthy(a *cli.App, r *quality.Report) {
	var like, area []string
	for _, c := range r.LikeHealthy() {
		like, area = append(like, c.Class), append(area, fmt.Sprintf("%.2f", *c.Against))
	}
	if len(like) == 0 {
		return
	}
	a.Say("warning: %s can hardly be distinguished from %s (AUROC %s), so that healthy data are often classified as these faults: merge them with --merge-classes %q", models.ListText(like), r.Healthy, strings.Join(area, ", "), strings.Join(like, ",")+"="+r.Healthy)
}

// shown formats a number; nil: unknown.
func shown(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

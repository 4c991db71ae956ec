package offlinecmd

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// sayTrained shows the new model and its training.
func sayTrained(a *cli.App, out string, report offline.RetrainReport) error {
	r, err := models.Inspect(out)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Model  models.Report         `json:"model"`
			Report offline.RetrainReport `json:"report"`
		}{r, report})
	}
	models.Print(a, r)
	printQuality(a, report.Readout.Quality)
	printSets(a, report.Readout.Sets)
	printAnswers(a, (*offline.AnswerCount)(report.Readout.Answers))
	printNumbers(a, (*offline.NumberErrors)(report.Readout.Numbers))
	printRandom(a, report.Random)
	printSegments(a, report.Segments)
	sayNumbers(a, report.Readout)
	sayCoverage(a, report.Readout, r.Readouts[0].Coverage)
	sayAnswers(a, report.Readout, r.Readouts[0].Abstain)
	printGroups(a, report.ByGroup)
	sayNovelty(a, report, r.Readouts[0].Detects())
	sayEarly(a, report)
	sayGroups(a, report)
	a.Say("states %.1f s, readout %.1f s", report.StateSeconds, report.FitSeconds)
	if report.Missing > 0 {
		a.Say("note: %d missing values were filled with the value before them", report.Missing)
	}
	return nil
}

// sayRate prints the sampling rate of the training, and the longest pause within sequences: the live stage flags only
// longer pauses.
func sayRate(a *cli.App, r offline.RetrainReport) {
	a.Say("sampling rate %g Hz: the live stage flags sequences at another rate", r.Sampling.Rate)
	if intervals := float64(r.Sampling.Longest) / 1e9 * r.Sampling.Rate; intervals > manyIntervals {
		a.Say("note: samples of training sequences are up to %.4g s apart, as long as %.0f intervals of that rate; shorter pauses will not be flagged; give --sample-rate if these are faults of the recording", float64(r.Sampling.Longest)/1e9, intervals)
	}
}

// manyIntervals between two samples are no jitter of a clock.
const manyIntervals = 3

// SayPlanned describes the training data.
func SayPlanned(a *cli.App, src archives.Labeled, p reservoir.Policy, r offline.RetrainReport) {
	length := fmt.Sprint(r.MinLength)
	if r.MaxLength != r.MinLength {
		length += fmt.Sprintf(" to %d", r.MaxLength)
	}
	cuts := models.PolicyText(p)
	if r.TrainHop > 0 {
		cuts += fmt.Sprintf("; learning from every %d samples", r.TrainHop)
	}
	a.Say("training on %d sequences of %s samples, cut from %d %s as the live stage cuts them: %s", r.Sequences, length, r.Series, src.Words(), cuts)
	a.Say("%s", planText(r.Plan))
	if r.Sampling.Rate > 0 {
		sayRate(a, r)
	}
	if text := src.Labels.Fit().Text(); text != "" {
		a.Say("warning: %s", text)
	}
	if r.Unused > 0 {
		a.Say("note: %d samples after the last sequence of their %s are not used", r.Unused, src.Words())
	}
	if r.Mixed > 0 {
		a.Say("note: %d sequences hold samples with several labels and are left out", r.Mixed)
	}
	if r.Unlabeled > 0 {
		a.Say("note: %d sequences have no label and are left out", r.Unlabeled)
	}
	if len(r.Divided) > 0 {
		a.Say("warning: all data of %s come from one continuous interval: leave-one-out can leave out only parts of it and keeps their neighbors, so its accuracy is too optimistic", models.ListText(r.Divided))
	}
}

package offline

import (
	"context"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// retrainRecording is Retrain on one file.
func retrainRecording(ctx context.Context, path string, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	return Retrain(ctx, archive.RecordingFiles{Paths: []string{path}}, opt, progress)
}

// evaluateRecording is Evaluate on one file.
func evaluateRecording(ctx context.Context, m *reservoir.Model, path string, opt EvaluateOptions, progress archive.Progress) (*Evaluation, error) {
	return Evaluate(ctx, m, archive.RecordingFiles{Paths: []string{path}}, opt, progress)
}

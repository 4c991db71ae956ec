package offline

import (
	"context"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// retrainRecording is RetrainFiles on one file.
func retrainRecording(ctx context.Context, path string, opt RetrainOptions, progress Progress) (*reservoir.Model, RetrainReport, error) {
	return RetrainFiles(ctx, RecordingFiles{Paths: []string{path}}, opt, progress)
}

// evaluateRecording is EvaluateFiles on one file.
func evaluateRecording(ctx context.Context, m *reservoir.Model, path string, opt EvaluateOptions, progress Progress) (*Evaluation, error) {
	return EvaluateFiles(ctx, m, RecordingFiles{Paths: []string{path}}, opt, progress)
}

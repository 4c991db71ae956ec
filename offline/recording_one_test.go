package offline

import (
	"context"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// retrainRecording is RetrainFiles on one file.
func retrainRecording(ctx context.Context, path string, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	return RetrainFiles(ctx, archive.RecordingFiles{Paths: []string{path}}, opt, progress)
}

// evaluateRecording is EvaluateFiles on one file.
func evaluateRecording(ctx context.Context, m *reservoir.Model, path string, opt EvaluateOptions, progress archive.Progress) (*Evaluation, error) {
	return EvaluateFiles(ctx, m, archive.RecordingFiles{Paths: []string{path}}, opt, progress)
}

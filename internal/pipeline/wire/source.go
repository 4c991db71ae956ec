package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Errors of workers whose job reads other messages, or reads its messages in another
// way. ErrOtherInput comes with pipeline.ErrOtherModel.
var (
	ErrSource     = errors.New("another input")
	ErrOtherInput = errors.New("another input format")
)

// Source names the job whose input a job reads, if it is another job: it is part of the
// job's entry. The zero value belongs to a job with its own input.
type Source struct {
	Job     string `json:"job"`            // the job with the input
	Created string `json:"created"`        // creation time of the input, as in a record
	From    uint64 `json:"from,omitempty"` // the first message that the job reads; 0 = the first message of the input
}

// String is empty for a job with its own input.
func (s Source) String() string {
	if s.Job == "" {
		return ""
	}
	b, _ := json.Marshal(s) // only texts and a number
	return string(b)
}

func parseSource(text string) (s Source, err error) {
	if text == "" {
		return s, nil
	}
	if err = json.Unmarshal([]byte(text), &s); err == nil && s.Job == "" {
		err = fmt.Errorf("it names no job")
	}
	if err != nil {
		return Source{}, fmt.Errorf("header %s is %q: %w", HeaderSource, text, err)
	}
	return s, nil
}

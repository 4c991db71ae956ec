package wire

import (
	"encoding/json"
	"fmt"
)

// Source says whose input a job reads, where that is another job's: it is part of
// the job's entry. The zero value is that of a job with an input of its own.
type Source struct {
	Job     string `json:"job"`            // whose input it is
	Created string `json:"created"`        // when that was created, as in a record
	From    uint64 `json:"from,omitempty"` // its first message that the job reads; 0 = the first of all
}

// String is empty for a job with an input of its own.
func (s Source) String() string {
	if s.Job == "" {
		return ""
	}
	b, _ := json.Marshal(s) // texts and a number alone
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

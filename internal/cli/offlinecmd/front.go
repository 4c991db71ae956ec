package offlinecmd

import (
	"github.com/eusn-stream/eusn-stream/offline"
)

// frontFlag is a front end.
type frontFlag offline.Front

func (f *frontFlag) Type() string { return "parts" }

func (f *frontFlag) String() string { return offline.Front(*f).String() }

func (f *frontFlag) Set(text string) error {
	return (*offline.Front)(f).UnmarshalText([]byte(text))
}

package root

import (
	"errors"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

// adviseError adds the next command to the errors of libraries that have one command for all
// callers. It replaces the advice of the command that met the error.
func adviseError(err error) error {
	next := ""
	switch {
	case errors.Is(err, datafile.ErrTokens):
		next = "eusn-stream offline paper embed DATA --output FILE, then the same command with that file"
	case errors.Is(err, groups.ErrParts):
		next = "eusn-stream offline split --help, which writes such a file"
	case errors.Is(err, labels.ErrNowhere):
		next = "eusn-stream labels list, with the login of an operator, which creates it"
	case errors.Is(err, registry.ErrDamaged):
		next = "eusn-stream model publish FILE, with the same model file"
	case errors.Is(err, store.ErrLayout):
		next = "the same command without stage.partitions (--partitions); or stop the workers, then eusn-stream job resize PARTITIONS"
	default:
		return err
	}
	return cli.WithNext(err, next)
}

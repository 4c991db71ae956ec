package owner

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// OtherRecord returns the reason why a worker cannot continue from a partition's
// record: the states belong to another arithmetic or model. nil: the worker can
// continue.
func OtherRecord(subject string, r wire.Record, arithmetic string, model wire.Identity) error {
	if !r.Continues(arithmetic) {
		return OtherArithmetic(subject, r.Arithmetic, arithmetic)
	}
	if what := model.Differs(r.Identity); what != "" {
		return fmt.Errorf("pipeline: the record on %s was written with another %s than this worker's: run the job with the model it started with, or start a new job", subject, what)
	}
	return nil
}

// otherGeneration returns the reason why a worker cannot continue from a record of
// another number of partitions. A draining worker accepts earlier records, too.
func (w *Worker) otherGeneration(subject string, r wire.Record) error {
	if r.Generation == w.Generation || w.Drain != nil && r.Generation < w.Generation {
		return nil
	}
	return fmt.Errorf("pipeline: the record on %s is of generation %d of the job's partitions, this worker began in generation %d: the number of partitions, or the job's network, was changed since, or is being changed; nothing is lost: restart the worker; if it reports an incomplete change, complete this change (resize or replace)",
		subject, r.Generation, w.Generation)
}

// OtherArithmetic reports states computed in another arithmetic than this engine's.
func OtherArithmetic(whose, theirs, ours string) error {
	name := func(arithmetic string) string {
		if arithmetic == "" {
			return reservoir.Canonical
		}
		return arithmetic
	}
	return fmt.Errorf("pipeline: the states of %s were computed in the arithmetic %s, but this engine uses %s, which gives different states: use an engine of the first arithmetic, or start a new job",
		whose, name(theirs), name(ours))
}

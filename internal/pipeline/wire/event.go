package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readEvent reads the body of an event for a partition: JSON with the fields of e only,
// no trailing data; of points to the partition number in e.
func readEvent(data []byte, e any, of *int, part int) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(e); err != nil {
		return err
	}
	if _, after := d.Token(); after != io.EOF {
		return errors.New("there is data after its end")
	}
	if *of != part {
		return fmt.Errorf("the event is for partition %d, and arrived in partition %d: a resize of the job changed the partitions while the event was on the way, and the stage sends a new event; without a resize, another program has copied the event", *of, part)
	}
	return nil
}

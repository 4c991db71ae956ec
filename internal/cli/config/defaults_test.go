package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// The documented defaults are those of the libraries.
func TestDefaultsAreThePipelines(t *testing.T) {
	c, err := Load("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := c.Pipeline(), pipeline.Config{Shards: c.Stage.Shards}.WithDefaults()
	want.Shards = 0 // one per core, whatever this machine has
	if !reflect.DeepEqual(got, want) {
		t.Errorf("default.yaml gives\n%+v, the pipeline's defaults are\n%+v", got, want)
	}
}

// Every field has a documented key and every key a field.
func TestEveryKeyHasAField(t *testing.T) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(strings.NewReader(string(defaultYAML))); err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			key := prefix + f.Tag.Get("mapstructure")
			if f.Type.Kind() == reflect.Struct {
				walk(key+".", f.Type)
			} else {
				fields[key] = true
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	for _, key := range v.AllKeys() {
		if !fields[key] {
			t.Errorf("default.yaml has %s, Config has no such field", key)
		}
		delete(fields, key)
	}
	for key := range fields {
		t.Errorf("Config has %s, default.yaml does not document it", key)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"job", "model", "nats.url", "stage.rows", "stage.max_slots", "stage.max_streams", "input.max_bytes", "log.level"}
	for got, want := range map[string]string{
		"jop": "job", "stage.row": "stage.rows", "rows": "stage.rows", "nats.ulr": "nats.url", "url": "nats.url",
		"stage.maxslots": "stage.max_slots", "logs.level": "log.level", "input.max_byte": "input.max_bytes",
	} {
		if n := nearest(got, known); n != want {
			t.Errorf("nearest to %q is %q, want %q", got, n, want)
		}
	}
}

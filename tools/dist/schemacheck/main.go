// Command schemacheck checks JSON documents against a JSON Schema. Referenced schemas are
// read from the folder of the schema.
//
//	go run ./tools/dist/schemacheck bom-1.6.schema.json FILE...
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: schemacheck SCHEMA FILE...")
		os.Exit(2)
	}
	if err := checkDocument(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "schemacheck:", err)
		os.Exit(1)
	}
}

// folder loads schemas from a folder, by the address in each schema.
type folder string

func (dir folder) Load(url string) (any, error) {
	names, err := filepath.Glob(filepath.Join(string(dir), "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		v, err := readJSON(name)
		if err != nil {
			return nil, err
		}
		if m, ok := v.(map[string]any); ok && m["$id"] == url || "file:///"+filepath.Base(name) == url {
			return v, nil
		}
	}
	return nil, fmt.Errorf("no schema in %s has the address %s", string(dir), url)
}

func readJSON(name string) (any, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return jsonschema.UnmarshalJSON(f)
}

func checkDocument(schema string, files []string) error {
	c := jsonschema.NewCompiler()
	c.UseLoader(folder(filepath.Dir(schema)))
	s, err := c.Compile("file:///" + filepath.Base(schema))
	if err != nil {
		return err
	}
	for _, name := range files {
		v, err := readJSON(name)
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

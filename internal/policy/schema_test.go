package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"
)

// published is the schema as an editor would load it.
func published(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	b, err := SchemaJSON()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func instance(t *testing.T, text []byte) any {
	t.Helper()
	b, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaAcceptsWhatLoads(t *testing.T) {
	schema := published(t)
	for _, file := range goodFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance(t, text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := schema.Validate(instance(t, load(t, file, fullEnv).Print())); err != nil {
			t.Errorf("%s printed: %v", file, err)
		}
	}
}

// TestSchemaRefuses: faults of form are in the schema too; faults between fields are check's alone.
func TestSchemaRefuses(t *testing.T) {
	schema := published(t)
	for _, name := range []string{"unknown", "types", "policy", "policy_nameless", "list", "text"} {
		text, err := os.ReadFile(filepath.Join("testdata/bad", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(instance(t, text)) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, text := range []string{
		"listne: x", "limits: {workers: 0}", "limits: {commit_wait: 2}", "limits: {body_memory: 1Gb}", "env: Production",
		"workflows: {a: {mode: observ}}", "workflows: {A b: {}}", "workflows: {a: {retry: {share: 1.5}}}", "workflows: {a: {tiers: {}}}",
		"tools: {t: {routes: []}}", "workflows: {a: {lanes: {owner_review: {enter_wen: []}}}}", "auth: {keys: [{name: x}]}",
		"workflow: Bad Name", "ai_api_queueing_strategy: {}", "workflows: {a: {bulkhead: {wait: yes please}}}",
	} {
		if schema.Validate(instance(t, []byte(text))) == nil {
			t.Errorf("%s is accepted", text)
		}
		if c, _ := Parse("x.yaml", []byte(text), noEnv); c != nil {
			t.Errorf("%s loads", text)
		}
	}
}

// TestNotYetNamesRealFields: an entry whose field is renamed would silently say nothing.
func TestNotYetNamesRealFields(t *testing.T) {
	for pattern := range NotYet() {
		typ := reflect.TypeFor[Config]()
		for _, seg := range segments(pattern) {
			for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			if seg == "*" || seg == "1" {
				continue
			}
			fields := fieldsOf(typ)
			i := slices.IndexFunc(fields, func(f field) bool { return f.name == seg })
			if i < 0 {
				t.Fatalf("%s: no field %s", pattern, seg)
			}
			typ = fields[i].typ
		}
	}
}

// TestNotYetOnlyWhenWritten: defaults are not complained about.
func TestNotYetOnlyWhenWritten(t *testing.T) {
	_, faults := Parse("x.yaml", []byte("workflows: {a: {effect: generation, tiers: [{provider: openai, model: gpt-5}]}}"), noEnv)
	if len(faults) != 0 {
		t.Errorf("%s", lines(faults))
	}
	_, faults = Parse("x.yaml", []byte("workflows: {a: {retry: {max_attempts: 3}, lanes: {}}}"), noEnv)
	if len(faults) != 0 {
		t.Errorf("as by default: %s", lines(faults))
	}
	_, faults = Parse("x.yaml", []byte("alerts: {channels: {ops: {url: 'https://example.com/x'}}}\nworkflows: {'1': {spend: {per_day: 3}, topic: x, approval: dispatch}}"), noEnv)
	if got := lines(faults); strings.Count(got, "not yet acted on") != 2 || Refused(faults) || Unservable(faults) {
		t.Errorf("%s", got)
	}
}

// TestPrintedConfigurationWarnsOfNothingNew: what check --print writes is as quiet as what it was made from.
func TestPrintedConfigurationWarnsOfNothingNew(t *testing.T) {
	for _, file := range goodFiles(t) {
		c, before := Load(file, noEnv)
		_, after := Parse(filepath.Join(filepath.Dir(file), "printed.yaml"), c.Print(), noEnv)
		if len(after) > len(before) {
			t.Errorf("%s:\n%s\nprinted:\n%s", file, lines(before), lines(after))
		}
	}
	if _, faults := Parse("printed.yaml", Default(noEnv).Print(), noEnv); len(faults) != 0 {
		t.Errorf("the defaults: %s", lines(faults))
	}
}

// TestIgnoredMeaning: a request whose question does not count is another's duplicate.
func TestIgnoredMeaning(t *testing.T) {
	_, faults := Parse("x.yaml", []byte("workflows: {a: {idempotency: {ignore: [messages, metadata.trace_id, model]}}}"), noEnv)
	if got := lines(faults); strings.Count(got, "is what a request asks") != 2 || !strings.Contains(got, "ignore[2]: warning: \"model\"") || Refused(faults) {
		t.Errorf("%s", got)
	}
	if _, faults = Parse("x.yaml", []byte("workflows: {a: {idempotency: {key: '{order.id}', ignore: [messages]}}}"), noEnv); len(faults) != 0 {
		t.Errorf("under a template: %s", lines(faults))
	}
}

// TestStoreIsAFile: SQLite's words for other things would silently become file names.
func TestStoreIsAFile(t *testing.T) {
	for _, dsn := range []string{"sqlite::memory:", "sqlite://:memory:", "sqlite:file::memory:", "sqlite:file:x.db", "sqlite:x.db?mode=memory", "sqlite::Memory:"} {
		if _, faults := Parse("x.yaml", []byte("store: '"+dsn+"'"), noEnv); !Refused(faults) {
			t.Errorf("%s is accepted", dsn)
		}
	}
}

// TestSchemaDescribesEveryField: editors show what the manual says.
func TestSchemaDescribesEveryField(t *testing.T) {
	walk(reflect.TypeFor[Config](), map[reflect.Type]bool{}, func(f field) {
		if f.doc == "" && !f.value {
			t.Errorf("%s has no doc tag", f.name)
		}
	})
}

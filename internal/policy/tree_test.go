package policy

import "testing"

// TestForms: the same meaning in every form that YAML has for it.
func TestForms(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        "",
		"comments":       "# nothing here\n\n# nor here\n",
		"separator":      "---\nenv: production\n",
		"line ends":      "env: production\r\nlisten: 127.0.0.1:8787\r\n",
		"byte order":     "\ufeffenv: production\n",
		"flow":           "{env: production, \"listen\": '127.0.0.1:8787'}",
		"folded":         "env: >-\n  production\n",
		"anchor":         "x-e: &e production\nenv: *e\n",
		"anchored block": "x-l: &l\n  workers: 16384\nlimits: *l\n",
		"merge":          "x-l: &l {workers: 1}\nlimits:\n  <<: *l\n  workers: 16384\n",
		"merges":         "x-l: &l {workers: 16384}\nx-m: &m {workers: 2}\nlimits: {<<: [*l, *m]}\n",
		"tail comments":  "env: production # which\nlimits: # how much\n  workers: 16384 # calls\n",
	} {
		if c := parse(t, text); c.Revision != Default(noEnv).Revision {
			t.Errorf("%s: means\n%s", name, c.Print())
		}
	}
}

// TestPolicyFileAlone: what a policy file refers to in holdfast.yaml cannot be known from it alone.
func TestPolicyFileAlone(t *testing.T) {
	c := parse(t, "workflow: chat\ntiers: [{provider: ours, model: m}]\nbreaker: {scope: shared}\nbulkhead: {max_concurrent: 3}\ncache: {semantic: {embedder: main}}\n")
	if !c.PolicyOnly() || c.Workflow("chat").Tiers[0].Provider != "ours" {
		t.Errorf("%+v", c.Workflow("chat"))
	}
}

// Package policy turns holdfast.yaml and policy files into plain structs, and names every fault with its line and remedy.
package policy

import "time"

// The struct tags below are the one description of the configuration. The decoder, the defaults, the JSON schema,
// `check --print` and the tables of docs/configuration.md are all derived from them:
//
//	yaml     name; ",map" a mapping whose keys become the first field (order kept); ",alias" a second spelling
//	default  what a field left out means
//	enum     allowed words, split at |
//	is       a check of the value: name, glob, addr, url, path, positive, ratio, ms (integer milliseconds), …
//	doc      one line for editors and the manual

// Config is a whole configuration with every default applied. It is immutable once loaded, except by Override.
type Config struct {
	Env    string `yaml:"env" default:"production" is:"name" doc:"Stamped into the store, which refuses every other; part of every key."`
	Listen string `yaml:"listen" default:"127.0.0.1:8787" is:"addr" doc:"Address of the data plane."`
	Admin  string `yaml:"admin" default:"127.0.0.1:8788" is:"addr" doc:"Address of the admin API and the dashboard."`
	Store  []DSN  `yaml:"store,one" default:"sqlite:holdfast.db" is:"store" doc:"The ledger: sqlite:FILE, FILE or postgres://USER@HOST/DB; operations are spread over a list of databases."`

	Fleet       Fleet        `yaml:"fleet" doc:"How replicas on one store work together."`
	SharedState *SharedState `yaml:"shared_state" doc:"Where replicas share breakers, slots and spend per day; without it each process has its own, divided by breaker.replicas."`
	Providers   []Provider   `yaml:"providers,map" is:"name" doc:"LLM providers; a name is also a path prefix. Without the block: openai, anthropic, gemini."`
	Models      []Model      `yaml:"models,map" doc:"Costs in USD per million tokens, and capabilities, of models; spend and replay-policy count with the costs."`
	Embedders   []Embedder   `yaml:"embedders,map" is:"name" doc:"Embedders for the semantic cache."`
	// Workflows are in the order of the file, inline ones before those of policies; the last is always "default".
	Workflows []Workflow   `yaml:"workflows,map" is:"name" doc:"Policies of calls; the first whose match fits applies, then default."`
	Policies  []string     `yaml:"policies,one" is:"glob" doc:"Globs of policy files, one workflow each, relative to this file."`
	Tools     []ToolServer `yaml:"tools,map" is:"name" doc:"HTTP write tools behind /tools/{name}/."`
	MCP       MCP          `yaml:"mcp" doc:"MCP servers behind /mcp/{server}."`
	Sync      Sync         `yaml:"sync" doc:"Operations that devices made offline."`
	Alerts    Alerts       `yaml:"alerts" doc:"Who is told, and of what."`
	Telemetry Telemetry    `yaml:"telemetry" doc:"OpenTelemetry export; Prometheus is always at /metrics on the admin port."`
	Auth      Auth         `yaml:"auth" doc:"Who may call. Without keys: loopback only."`
	Limits    Limits       `yaml:"limits" doc:"Bounds of this process."`
	Retention Retention    `yaml:"retention" doc:"How long the store keeps what."`
	Drills    Drills       `yaml:"drills" doc:"Whether faults may be injected into this gateway on purpose."`

	// Revision is the content hash of the effective configuration, secrets excepted (semantics 5).
	Revision string `yaml:"-"`

	source  source
	index   map[string]int
	partial bool
	read    []Fault // what reading found that refuses nothing by itself: kept for Override
}

// PolicyOnly reports whether the configuration came from a policy file alone: what that refers to in holdfast.yaml is
// not there, and was not checked.
func (c *Config) PolicyOnly() bool { return c.partial }

// Fleet is how replicas on one store work together.
type Fleet struct {
	Advertise  string        `yaml:"advertise" is:"advertise" doc:"How other replicas reach this one's data plane, e.g. http://${POD_IP}:8787. Left out: the address of listen, if that is one machine's."`
	DrainGrace time.Duration `yaml:"drain_grace" default:"5s" doc:"How long a replica that was told to stop still takes calls, with /readyz at 503, so that balancers notice first. A gateway on SQLite, which has no other beside it, does not wait."`
}

// SharedState is a store for state that replicas share.
type SharedState struct {
	URL     DSN           `yaml:"url" is:"required,shared" doc:"redis://, rediss://, valkey://, valkeys:// or postgres://"`
	Timeout time.Duration `yaml:"timeout" default:"100ms" is:"positive" doc:"What a request waits for it at most: then the state is local, and answers say Holdfast-Degraded: shared_state."`
}

// Wire families of Provider.Type.
const (
	TypeOpenAI    = "openai"
	TypeAnthropic = "anthropic"
	TypeGemini    = "gemini"
)

// Provider is one upstream. BaseURL is what that provider's own SDK takes as its base URL.
type Provider struct {
	Name       string   `yaml:"-"`
	Type       string   `yaml:"type" enum:"openai|anthropic|gemini" doc:"Wire format; may be left out where the name says it."`
	BaseURL    string   `yaml:"base_url" is:"url" doc:"What that provider's own SDK takes as its base URL; the public API of the type if left out."`
	APIKey     Secret   `yaml:"api_key" doc:"Replaces the client's credential. Without it the client's own is forwarded."`
	AuthHeader string   `yaml:"auth_header" is:"header" doc:"Header that carries the key, e.g. api-key for Azure; the type's own if left out."`
	Headers    []Header `yaml:"headers,map" is:"header" doc:"Further headers of every request."`
	Mode       Mode     `yaml:"mode" enum:"enforce|observe" doc:"Overrides the workflow's mode on this provider's routes."`
}

// Header is one header that is sent; its value may be a credential.
type Header struct {
	Name  string `yaml:"-"`
	Value Secret `yaml:",value"`
}

// Model is what is known of a model. A nil field is filled from the built-in table.
type Model struct {
	Name          string   `yaml:"-"`
	ContextTokens *int64   `yaml:"context_tokens" is:"positive" doc:"Size of the context window."`
	InputCost     *float64 `yaml:"input_cost" is:"nonnegative" doc:"USD per million input tokens."`
	OutputCost    *float64 `yaml:"output_cost" is:"nonnegative" doc:"USD per million output tokens."`
	Tools         *bool    `yaml:"tools" doc:"Can call tools."`
	ParallelTools *bool    `yaml:"parallel_tools" doc:"Can call several tools at once."`
	Images        *bool    `yaml:"images" doc:"Takes images."`
	Audio         *bool    `yaml:"audio" doc:"Takes audio."`
	Video         *bool    `yaml:"video" doc:"Takes video."`
	Files         *bool    `yaml:"files" doc:"Takes documents, e.g. PDF."`
	JSONSchema    *bool    `yaml:"json_schema" doc:"Keeps a JSON schema, an answer's or a strict tool's."`
}

// Embedder turns text into a vector.
type Embedder struct {
	Name     string        `yaml:"-"`
	Type     string        `yaml:"type" default:"provider" enum:"provider|ngram|model2vec" doc:"provider: an embeddings endpoint; ngram: built-in, near-duplicates only; model2vec: a folder of yours."`
	Provider string        `yaml:"provider" doc:"A name from providers."`
	Model    string        `yaml:"model" doc:"The provider's embedding model."`
	Path     string        `yaml:"path" doc:"Folder of a model2vec model."`
	Timeout  time.Duration `yaml:"timeout" default:"2s" is:"positive" doc:"After this the cache is passed over."`
}

// Auth says who may call (semantics 44).
type Auth struct {
	Keys   []AuthKey `yaml:"keys" doc:"Client credentials, a static list; an item is the key alone or a mapping."`
	Hosts  []string  `yaml:"hosts" is:"host" doc:"Further host names that the listeners answer to."`
	Tenant string    `yaml:"tenant" is:"name" doc:"Fixes the tenant of everybody, where tokens rotate."`
}

// Roles of AuthKey.Role.
const (
	RoleClient   = "client"
	RoleOperator = "operator"
)

// AuthKey is one client credential.
type AuthKey struct {
	Key       Secret   `yaml:"key,scalar" is:"required" doc:"What the client sends as its API key."`
	Name      string   `yaml:"name" is:"name" doc:"How logs name this credential."`
	Tenant    string   `yaml:"tenant" default:"main" is:"name" doc:"Keys, caches and listings are scoped by tenant."`
	Workflows []string `yaml:"workflows" is:"name" doc:"Workflows allowed; all if left out."`
	Role      string   `yaml:"role" default:"client" enum:"client|operator" doc:"operator may also use the admin API."`
	Owner     string   `yaml:"owner" is:"line" doc:"Pins Holdfast-Owner."`
}

// Limits bound what this process takes on.
type Limits struct {
	Workers          int           `yaml:"workers" default:"16384" is:"positive" doc:"Calls in progress."`
	BodyMemory       int64         `yaml:"body_memory" default:"1GiB" is:"size,positive" doc:"Bodies held in memory over all calls; beyond it calls are shed."`
	MaxRequestBytes  int64         `yaml:"max_request_bytes" default:"64MiB" is:"size,positive" doc:"A larger request is refused."`
	MaxResponseBytes int64         `yaml:"max_response_bytes" default:"64MiB" is:"size,positive" doc:"A larger generation is forwarded but not recorded; a larger external answer is unknown."`
	EventBytes       int64         `yaml:"event_bytes" default:"16MiB" is:"size,positive" doc:"One event of a stream."`
	LeadInBytes      int64         `yaml:"lead_in_bytes" default:"1MiB" is:"size,positive" doc:"What is held before the first content of a stream."`
	HeaderBytes      int64         `yaml:"header_bytes" default:"64KiB" is:"size,positive" doc:"All headers of a request."`
	JSONDepth        int           `yaml:"json_depth" default:"128" is:"positive" doc:"Nesting of a body."`
	Attached         int           `yaml:"attached" default:"1000" is:"positive" doc:"Clients attached to one running answer."`
	CommitWait       time.Duration `yaml:"commit_wait" default:"2s" is:"positive" doc:"A commit that takes longer is refused to the client."`
	DrainWait        time.Duration `yaml:"drain_wait" default:"10m" is:"positive" doc:"How long a shutdown waits for what is in flight."`
}

// Retention is how long the store keeps what.
type Retention struct {
	Answers       time.Duration `yaml:"answers" default:"24h" doc:"Answers are kept this long beyond their ttl."`
	RequestBodies string        `yaml:"request_bodies" default:"jobs" enum:"jobs|none" doc:"jobs: request bodies of jobs and tools only."`
	DeadLetter    time.Duration `yaml:"dead_letter" default:"30d" is:"positive" doc:"Intents in the dead letter."`
	Rows          time.Duration `yaml:"rows" default:"90d" is:"positive" doc:"Settled intents and their history."`
	MaxBytes      int64         `yaml:"max_bytes" default:"10GiB" is:"size" doc:"Size of the store; the oldest settled go first, never unsettled ones. 0: no bound."`
}

// Sync bounds operations that devices made offline (semantics 43).
type Sync struct {
	ClockAhead time.Duration `yaml:"clock_ahead" default:"5m" doc:"A device's clock further ahead is refused with retry_after_ms."`
	Entities   []Entity      `yaml:"entities,map" is:"name" doc:"How the fields of an entity merge."`
}

// Entity says how the fields of one kind of entity merge.
type Entity struct {
	Name   string       `yaml:"-"`
	Fields []MergeField `yaml:"fields,map" doc:"Field name: how two writes merge."`
}

// MergeField is one field's merge.
type MergeField struct {
	Name  string `yaml:"-"`
	Merge string `yaml:",value" enum:"earliest|latest|max|min|union|counter"`
}

// Alerts says who is told and of what.
type Alerts struct {
	Channels []Channel  `yaml:"channels,map" is:"name" doc:"Without one, alerts are only logged and listed."`
	Rules    AlertRules `yaml:"rules" doc:"Thresholds."`
}

// Channel is one receiver of alerts.
type Channel struct {
	Name   string `yaml:"-"`
	Type   string `yaml:"type" default:"slack" enum:"slack|webhook" doc:"slack: Slack-compatible text; webhook: JSON, signed with secret."`
	URL    Secret `yaml:"url" is:"required,url" doc:"Where alerts are posted."`
	Secret Secret `yaml:"secret" doc:"Signs a webhook."`
}

// AlertRules are the thresholds of interface.md §6.
type AlertRules struct {
	Duplicates    AlertEvery  `yaml:"duplicates" doc:"Duplicates found, bundled per workflow."`
	StoreErrors   AlertErrors `yaml:"store_errors" doc:"Share of failing store operations."`
	FallbackRatio AlertRatio  `yaml:"fallback_ratio" doc:"Share of answers that a fallback gave."`
	Unknown       AlertChecks `yaml:"unknown" doc:"Unknown after this many checks."`
	BreakerOpened AlertOn     `yaml:"breaker_opened" doc:"A breaker opened."`
	DeadLetter    AlertOn     `yaml:"dead_letter" doc:"An intent entered the dead letter."`
}

// AlertEvery bundles an alert.
type AlertEvery struct {
	Every time.Duration `yaml:"every" default:"5m" is:"positive" doc:"Bundling interval."`
}

// AlertErrors is the threshold of store errors.
type AlertErrors struct {
	Above float64 `yaml:"above" default:"0.001" is:"ratio" doc:"Share, 0 to 1."`
}

// AlertRatio is the threshold of fallbacks.
type AlertRatio struct {
	Above float64 `yaml:"above" default:"0.3" is:"ratio" doc:"Share, 0 to 1."`
}

// AlertChecks is the threshold of unknown outcomes.
type AlertChecks struct {
	Checks int `yaml:"checks" default:"5" is:"positive" doc:"Reconciler checks without an answer."`
}

// AlertOn is a rule without a threshold.
type AlertOn struct{}

// Telemetry is where traces and metrics go.
type Telemetry struct {
	OTLPEndpoint string   `yaml:"otlp_endpoint" is:"url" doc:"OTLP over HTTP; nothing is exported without it."`
	OTLPHeaders  []Header `yaml:"otlp_headers,map" is:"header" doc:"Headers of the export, e.g. a token."`
	ServiceName  string   `yaml:"service_name" default:"holdfast" is:"line" doc:"service.name of the resource."`
	TraceRatio   float64  `yaml:"trace_ratio" default:"1" is:"ratio" doc:"Share of traces kept."`
}

// Drills says whether faults may be injected here on purpose.
type Drills struct {
	Allow bool          `yaml:"allow" default:"false" doc:"holdfast routes fault may inject faults into this gateway."`
	Max   time.Duration `yaml:"max" default:"30m" is:"positive" doc:"The longest that one of them may be asked to last; it then ends by itself."`
}

package policy

import "strings"

// Overrides are the flags of serve that win over the file; empty ones leave it as it is.
type Overrides struct {
	Env, Listen, Admin, Store string
	Upstreams                 []string // NAME=BASE_URL, the name one of providers or a type
}

// flagPos is the place of a fault in a flag.
func flagPos(flag string) Pos { return Pos{File: "--" + flag, Line: 1, Col: 1} }

// Override applies the flags to c and checks the whole again.
func (c *Config) Override(o Overrides) []Fault {
	var faults []Fault
	set := func(to *string, flag, is, value string) {
		if value == "" {
			return
		}
		if what, remedy := checkText(is, value); what != "" {
			faults = append(faults, Fault{Pos: flagPos(flag), Path: flag, What: what, Remedy: remedy})
			return
		}
		*to = value
		delete(c.source.raw, flag)
		c.source.pos[flag] = flagPos(flag)
	}
	set(&c.Env, "env", "name", o.Env)
	set(&c.Listen, "listen", "addr", o.Listen)
	set(&c.Admin, "admin", "addr", o.Admin)
	store := ""
	if set(&store, "store", "store", o.Store); store != "" {
		c.Store = []DSN{NewDSN(store)}
		delete(c.source.raw, "store[0]")
	}
	for _, u := range o.Upstreams {
		faults = append(faults, c.upstream(u)...)
	}
	c.stamp()
	return sortFaults(append(faults, c.check()...))
}

func (c *Config) upstream(flag string) []Fault {
	name, base, ok := strings.Cut(flag, "=")
	at := Fault{Pos: flagPos("upstream"), Path: "upstream"}
	p := c.Provider(name)
	switch {
	case !ok:
		at.What, at.Remedy = quote(flag)+" is not NAME=BASE_URL", "write e.g. --upstream openai=http://127.0.0.1:9000/v1"
	case p == nil:
		at.What, at.Remedy = quote(name)+" is no provider", "name one of providers, or openai, anthropic, gemini"
	default:
		if at.What, at.Remedy = checkURL(base); at.What == "" {
			p.BaseURL = base
			delete(c.source.raw, "providers."+p.Name+".base_url")
			return nil
		}
	}
	return []Fault{at}
}

package policy

import (
	"slices"
	"strings"
)

// Overrides are the flags of serve that win over the file; empty ones leave it as it is.
type Overrides struct {
	Env, Listen, Admin, Store string
	Upstreams                 []string // NAME=BASE_URL, the name one of providers or a type
}

// flagPos is the place of a fault in a flag.
func flagPos(flag string) Pos { return Pos{File: "--" + flag, Line: 1, Col: 1} }

// Override applies the flags to c and checks the whole again. The faults are those of the whole, what Load found
// included, but for values that a flag replaced.
func (c *Config) Override(o Overrides) []Fault {
	faults := slices.Clone(c.read)
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
		faults = slices.DeleteFunc(faults, func(f Fault) bool { return f.Path == flag || strings.HasPrefix(f.Path, flag+"[") })
	}
	set(&c.Env, "env", "name", o.Env)
	set(&c.Listen, "listen", "addr", o.Listen)
	set(&c.Admin, "admin", "addr", o.Admin)
	store := ""
	if set(&store, "store", "store", o.Store); store != "" {
		c.Store = []DSN{storeDSN(store)}
		delete(c.source.raw, "store[0]")
	}
	for _, u := range o.Upstreams {
		replaced, fault := c.upstream(u)
		if fault != nil {
			faults = append(faults, *fault)
			continue
		}
		faults = slices.DeleteFunc(faults, func(f Fault) bool { return f.Path == replaced })
	}
	c.stamp()
	return sortFaults(append(faults, c.check(faults)...))
}

func (c *Config) providerNames() []string {
	names := make([]string, 0, len(c.Providers))
	for i := range c.Providers {
		names = append(names, c.Providers[i].Name)
	}
	return names
}

// upstream sets one base URL and returns the path that it replaced.
func (c *Config) upstream(flag string) (string, *Fault) {
	name, base, ok := strings.Cut(flag, "=")
	at := Fault{Pos: flagPos("upstream"), Path: "upstream"}
	p := c.Provider(name)
	switch {
	case !ok:
		at.What, at.Remedy = quote(flag)+" is not NAME=BASE_URL", "write e.g. --upstream openai=http://127.0.0.1:9000/v1"
	case p == nil && c.Written("providers") && defaultBase(name) != "":
		at.What, at.Remedy = "providers is written and has no "+name, "add "+name+": {} to it, or leave this flag out"
	case p == nil:
		at.What, at.Remedy = quote(name)+" is no provider", "name one of "+strings.Join(c.providerNames(), ", ")
	default:
		if at.What, at.Remedy = checkURL(base); at.What == "" {
			p.BaseURL = base
			path := join("providers", p.Name) + ".base_url"
			delete(c.source.raw, path)
			return path, nil
		}
	}
	return "", &at
}

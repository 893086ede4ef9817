package office

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// zones keeps DNS records.
type zones struct {
	mu      sync.Mutex
	records map[string][]dnsRecord
}

type dnsRecord struct {
	Zone  string `json:"zone" jsonschema:"Which zone" enum:"shop.example|office.example"`
	Name  string `json:"name" jsonschema:"Name within the zone" pattern:"^[a-z0-9-]+$" len:"63" example:"mail"`
	Type  string `json:"type" jsonschema:"Type of the record" enum:"A|CNAME|TXT"`
	Value string `json:"value" jsonschema:"What it says" len:"255" example:"192.0.2.10"`
}

func newZones() *zones {
	return &zones{records: map[string][]dnsRecord{
		"shop.example":   {{"shop.example", "www", "A", "192.0.2.1"}},
		"office.example": {{"office.example", "vpn", "A", "192.0.2.2"}},
	}}
}

func (*zones) name() string { return "zones" }

func (z *zones) snapshot() any {
	z.mu.Lock()
	defer z.mu.Unlock()
	return frozen(z.records)
}

type zoneQuery struct {
	Zone string `json:"zone" jsonschema:"Which zone" enum:"shop.example|office.example"`
}

type zoneRecords struct {
	Records []dnsRecord `json:"records"`
}

func (z *zones) register(m *mcp.Server) {
	addTool(m, describe[dnsRecord]("dns_record_add", "Add DNS record", "Add a record to a zone and publish the zone.", adds), z.add)
	addTool(m, describe[zoneQuery]("dns_record_list", "List DNS records", "The records of a zone.", reads), z.list)
}

var errUnpublished = errors.New("zone update failed: a secondary server did not answer in time; the record was not added")

// add is at fault twice: it says that it failed, which it did not, and a caller who believes that adds a second record.
func (z *zones) add(_ context.Context, in dnsRecord) (dnsRecord, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records[in.Zone] = append(z.records[in.Zone], in)
	return dnsRecord{}, errUnpublished
}

func (z *zones) list(_ context.Context, in zoneQuery) (zoneRecords, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return zoneRecords{copied(z.records[in.Zone])}, nil
}

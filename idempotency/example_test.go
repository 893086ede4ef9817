package idempotency_test

import (
	"fmt"

	"github.com/holdfast-ai/holdfast/idempotency"
)

func Example() {
	keys, err := idempotency.New(idempotency.Config{Ignore: []string{"sent_at"}})
	if err != nil {
		panic(err)
	}
	first := &idempotency.Request{Env: "production", Tenant: "main", Workflow: "billing", Method: "POST", Path: "/charges",
		Body: []byte(`{"customer": "c-9", "amount": 19.90, "sent_at": 1}`)}
	retry := &idempotency.Request{Env: "production", Tenant: "main", Workflow: "billing", Method: "POST", Path: "/charges",
		Body: []byte(`{"sent_at":2,"amount":19.9,"customer":"c-9"}`)}
	a, _ := keys.DerivedKey(first, keys.Fingerprint(first))
	b, _ := keys.DerivedKey(retry, keys.Fingerprint(retry))
	fmt.Println(a)
	fmt.Println(a == b)
	// Output:
	// idem:production:main:billing:a4dbecc40611d1eb4c283f2c1f00f001
	// true
}

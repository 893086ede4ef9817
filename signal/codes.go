package signal

// codeRule is what a machine-readable word means. A word with a class names a cause by itself; one with only
// a status stands in for the HTTP status where there is none (errors within a 200).
type codeRule struct {
	verdict
	status int
	when   []int // statuses at which the class holds; empty is any
}

func cause(c Class, l Limit, status int, fl ...flags) codeRule {
	r := codeRule{verdict: verdict{class: c, limit: l}, status: status}
	for _, f := range fl {
		r.flags |= f
	}
	return r
}

func stands(status int) codeRule { return codeRule{status: status} }

func (c codeRule) at(when ...int) codeRule { c.when = when; return c }

// codes by their normal form (see normal). Sources: the providers' error references.
var codes = map[string]codeRule{
	// OpenAI: money has type insufficient_quota and one of these codes.
	"insufficientquota":              cause(QuotaExhausted, Spend, 429),
	"creditbalanceexhausted":         cause(QuotaExhausted, Spend, 429),
	"organizationspendlimitexceeded": cause(QuotaExhausted, Spend, 429),
	"projectspendlimitexceeded":      cause(QuotaExhausted, Spend, 429),
	"organizationusagelimitexceeded": cause(QuotaExhausted, Spend, 429),
	"billinghardlimitreached":        cause(QuotaExhausted, Spend, 429),
	"billingnotactive":               cause(QuotaExhausted, Spend, 429),
	"usagelimitreached":              cause(QuotaExhausted, "", 429),
	// Anthropic.
	"billing":                   cause(QuotaExhausted, Spend, 402),
	"enforcedspendlimitreached": cause(QuotaExhausted, Spend, 429),
	// Google, OpenRouter, DeepSeek, others.
	"billingdisabled":      cause(QuotaExhausted, Spend, 403),
	"insufficientbalance":  cause(QuotaExhausted, Spend, 402),
	"insufficientcredits":  cause(QuotaExhausted, Spend, 402),
	"paymentrequired":      cause(QuotaExhausted, Spend, 402),
	"servicequotaexceeded": cause(QuotaExhausted, "", 400), // AWS: a quota of the account
	"exceededcurrentquota": cause(QuotaExhausted, Spend, 429),
	"accountoverdue":       cause(QuotaExhausted, Spend, 403),
	"arrearage":            cause(QuotaExhausted, Spend, 400),
	"quotaexceeded":        cause(QuotaExhausted, "", 429).at(402, 403),
	// In flight budgets come back within the minute that the answer states.
	"openrouterinflightbudget": cause(RateLimited, Spend, 402),

	"contextlengthexceeded":      cause(ContextLength, "", 400),
	"exceedcontextsize":          cause(ContextLength, "", 400),
	"contextwindowexceeded":      cause(ContextLength, "", 400),
	"modelcontextwindowexceeded": cause(ContextLength, "", 400),

	"requesttoolarge":       cause(TooLarge, "", 413),
	"maxtokensperrequest":   cause(TooLarge, "", 400),
	"payloadtoolarge":       cause(TooLarge, "", 413),
	"contenttoolarge":       cause(TooLarge, "", 413),
	"requestentitytoolarge": cause(TooLarge, "", 413),

	"contentfilter":                cause(ContentFilter, "", 400),
	"contentpolicyviolation":       cause(ContentFilter, "", 400),
	"responsibleaipolicyviolation": cause(ContentFilter, "", 400),
	"moderationblocked":            cause(ContentFilter, "", 400),
	"invalidprompt":                cause(ContentFilter, "", 400),
	"biopolicy":                    cause(ContentFilter, "", 400),
	"cyberpolicy":                  cause(ContentFilter, "", 400),
	"datainspectionfailed":         cause(ContentFilter, "", 400),
	"refusal":                      cause(ContentFilter, "", 400),
	// Gemini's block and finish reasons (go-genai types.go).
	"safety":                 cause(ContentFilter, "", 400),
	"recitation":             cause(ContentFilter, "", 400),
	"blocklist":              cause(ContentFilter, "", 400),
	"prohibitedcontent":      cause(ContentFilter, "", 400),
	"spii":                   cause(ContentFilter, "", 400),
	"imagesafety":            cause(ContentFilter, "", 400),
	"imageprohibitedcontent": cause(ContentFilter, "", 400),
	"imagerecitation":        cause(ContentFilter, "", 400),
	"modelarmor":             cause(ContentFilter, "", 400),
	"jailbreak":              cause(ContentFilter, "", 400),
	"malformedfunctioncall":  cause(ServerError, "", 0), // sampling again may work
	"unexpectedtoolcall":     cause(ServerError, "", 0),
	"toomanytoolcalls":       cause(ServerError, "", 0),
	"noimage":                cause(ServerError, "", 0),
	"imageother":             cause(ServerError, "", 0),
	"maxtokens":              cause(InvalidRequest, "", 400), // not one visible word within the budget
	"maxoutputtokens":        cause(InvalidRequest, "", 400),
	// Only when nothing was said besides (see needsContent).
	"length":                     cause(InvalidRequest, "", 400),
	"other":                      cause(ServerError, "", 0).at(5),
	"insufficientsystemresource": cause(Overloaded, "", 503),    // DeepSeek's finish reason
	"guardrailintervened":        cause(ContentFilter, "", 400), // Bedrock
	"contentfiltered":            cause(ContentFilter, "", 400),
	"emptychoices":               cause(ServerError, "", 0),
	"emptycandidates":            cause(ServerError, "", 0),

	"invalidapikey":         cause(Auth, "", 401),
	"apikeyinvalid":         cause(Auth, "", 401),
	"apikeyexpired":         cause(Auth, "", 401),
	"authentication":        cause(Auth, "", 401),
	"unauthenticated":       cause(Auth, "", 401),
	"unauthorized":          cause(Auth, "", 401),
	"invalidauthentication": cause(Auth, "", 401),
	"accessdenied":          cause(Permission, "", 403),
	"accountdeactivated":    cause(Auth, "", 401),
	// AWS answers these with a 403 or a 400.
	"expiredtoken":               cause(Auth, "", 403),
	"unrecognizedclient":         cause(Auth, "", 403),
	"invalidsignature":           cause(Auth, "", 403),
	"signaturedoesnotmatch":      cause(Auth, "", 403),
	"invalidclienttokenid":       cause(Auth, "", 403),
	"missingauthenticationtoken": cause(Auth, "", 403),
	"incompletesignature":        cause(Auth, "", 403),

	"permission":                        cause(Permission, "", 403),
	"permissiondenied":                  stands(403),
	"servicedisabled":                   cause(Permission, "", 403),
	"iampermissiondenied":               cause(Permission, "", 403),
	"consumersuspended":                 cause(Permission, "", 403),
	"apikeyserviceblocked":              cause(Permission, "", 403),
	"unsupportedcountryregionterritory": cause(Permission, "", 403),

	"modelnotfound":      cause(NotFound, "", 404).at(400, 404, 410, 422, 5),
	"notfound":           cause(NotFound, "", 404).at(400, 404, 410, 422, 5),
	"resourcenotfound":   cause(NotFound, "", 404).at(400, 404, 410, 422, 5),
	"deploymentnotfound": cause(NotFound, "", 404).at(400, 404, 410, 422, 5),

	"overloaded":             cause(Overloaded, "", 529),
	"serverisoverloaded":     cause(Overloaded, "", 503),
	"modelcapacityexhausted": cause(Overloaded, "", 503),
	"capacityexceeded":       cause(Overloaded, "", 503),
	"budgetexceeded":         cause(QuotaExhausted, Spend, 429),
	"modelnotready":          cause(Overloaded, "", 429),
	"modeloverloaded":        cause(Overloaded, "", 503),
	"engineoverloaded":       cause(Overloaded, "", 503),

	"modeltimeout":     cause(Timeout, "", 504, processed), // Bedrock's 408: the model ran
	"timeout":          stands(504),
	"deadlineexceeded": stands(504),
	"gatewaytimeout":   stands(504),
	"requesttimeout":   stands(504),
	"modelstream":      cause(ServerError, "", 424, processed).at(424, 5),
	"model":            cause(ServerError, "", 424, processed).at(424, 5),

	"empty2xx":      cause(ServerError, "", 0, processed),
	"html200":       cause(ServerError, "", 0, never, review), // a captive portal, or a base URL that is a website
	"invalidjson":   cause(Unknown, "", 0, processed),
	"truncatedjson": cause(Unknown, "", 0, processed),
	"streamcut":     cause(Unknown, "", 0, processed),
	"emptystream":   cause(Unknown, "", 0, processed),

	"ratelimit":           stands(429),
	"ratelimited":         stands(429),
	"ratelimitexceeded":   stands(429),
	"toomanyrequests":     stands(429),
	"slowdown":            stands(429),
	"throttling":          stands(429),
	"throttled":           stands(429),
	"resourceexhausted":   stands(429),
	"tokens":              stands(429),
	"requests":            stands(429),
	"server":              stands(500),
	"api":                 stands(500),
	"internal":            stands(500),
	"internalserver":      stands(500),
	"serviceunavailable":  stands(503),
	"unavailable":         stands(503),
	"invalidrequest":      stands(400),
	"invalidargument":     stands(400),
	"failedprecondition":  stands(400),
	"badrequest":          stands(400),
	"validation":          stands(400),
	"conflict":            stands(409),
	"aborted":             stands(409),
	"notimplemented":      stands(501),
	"unimplemented":       stands(501),
	"cancelled":           stands(499),
	"unprocessableentity": stands(422),
}

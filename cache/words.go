package cache

import "strings"

// set makes a set of the words of a text.
func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// phrases makes a map of words to what stands for them: lines of a word, a colon and the rest.
func phrases(lines string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(lines, ";") {
		w, full, _ := strings.Cut(line, ":")
		out[strings.TrimSpace(w)] = strings.TrimSpace(full)
	}
	return out
}

// starters begin questions and requests, and no name.
var starters = set(`what what's who's whom where where's when why how how's is are do does did was were should would could
	isn't aren't don't doesn't didn't wasn't weren't shouldn't wouldn't couldn't
	explain describe summarize summarise show give write recommend suggest translate compare convert calculate
	enable disable reset refund cancel update delete remove create add install restart reboot deploy send get buy sell check verify schedule
	upload download encrypt decrypt lock unlock import export turn
	wie wo wer wann warum welche welcher welches erkläre nenne où quand comment pourquoi quel quelle quels quelles
	qué dónde cuándo cuál cómo quién onde quando qual quem как где кто что когда почему сколько какая какой`)

// behindWho are verbs behind "who".
var behindWho = set(`has have had will wrote won founded invented sang directed made said`)

// stating are verbs that may make a statement of what began as a question.
var stating = set(`is are was were means ist sind est sont es está son están`)

// orders are requests to a service, which begin no title.
var orders = set(`enable disable reset refund cancel update delete`)

// greetings stand before a request with a comma.
var greetings = set(`hi hello hey`)

// interrogatives, auxiliaries and determiners are, in this order, words that begin nothing but a question.
var (
	interrogatives = set(`what who where when why how was wie wo wer wann warum où quel quelle quels quelles dónde cuál cuándo`)
	auxiliaries    = set(`is are was were do does did can could should would ist sind kann muss soll est sont es está son están`)
)

// determiners stand before a noun, or for one.
var determiners = set(`the a an my your our his their this that these those i you we they he she it me us there all every each
	der die das mein meine ich man le la les mon ma mes el los las mi mis`)

// persons stand behind the verb of a question or of a request.
var persons = set(`i we you they he she it my your our me us there`)

// tellers are verbs that ask to be told, and no nouns. Listers are nouns too.
var tellers, listers = set(`enable disable tell explain describe summarize summarise give write recommend suggest erkläre beschreibe nenne`), set(`show list name reset refund cancel update delete`)

// replies are what people say by themselves, of which what stands behind a comma may be a part.
var replies = set(`yes no sorry please thanks hello hi bye welcome pardon cheers well ok okay`)

// german begin questions and requests.
var german = set(`wie wo was wer wann warum welche welcher welches erkläre nenne`)

// french begin questions before whose mark a space may stand.
var french = set(`où quand comment pourquoi quel quelle quels quelles combien`)

// askingEnds are ends of Japanese questions, which state nothing without a mark either.
var askingEnds = []string{"どこですか", "いつですか", "誰ですか", "いくらですか"}

// contractions written out: only those with one form behind them.
var contractions = phrases(`don't: do not; doesn't: does not; didn't: did not; isn't: is not; aren't: are not; wasn't: was not; weren't: were not;
	can't: cannot; won't: will not`)

// subjects stand before a verb at the beginning.
var subjects = set(`i it we you they he she why`)

// afterMention stand behind a word that is spoken of: when to use "can't" in a letter.
var afterMention = set(`in at or and is was are as with to for on of when vs mean instead before after but than if`)

// beforeI and behindI are beside the English "I", and not beside a variable or a number of that name.
var beforeI, behindI = set(`can can't could should would will must may do did am don't didn't`), set(`am can can't cannot want need would should must will like don't`)

// caseless are codes of one meaning in any case.
var caseless = set(`eur usd gbp 2fa i'm i've i'll i'd`)

// shortWords are the words of one or two letters that are nothing else in capitals.
var shortWords = set(`i a is it in at do to an if my of on by`)

// names are words that mean something else with a capital, of which no list is whole. It stands behind other rules: what they take
// for the first word of a request, or for one of a text in capitals, keeps its own if it is here.
var names = set(`turkey polish march august china chad
	apple amazon meta target gap shell orange oracle go swift rust julia basic pascal dart elixir scratch lisp
	word excel access teams windows office outlook edge chrome safari opera brave explorer drive slack zoom notion linear
	discord signal telegram twitter snap square stripe block spring spark flask express react ember rails
	puppet chef salt ant maven make fish shell mint arch debian fedora mercury
	reading nice bath cork split mobile bill mark frank rose grace hope faith joy rob pat sue art dick john jack
	dawn iris lily daisy violet amber crystal ginger basil olive pearl jade summer mike drew chase grant
	hunter mason cooper carter parker taylor baker cook smith king bishop pope bush rice wood stone brown black white green
	gray grey gates jobs musk ford lincoln dodge jaguar puma mustang beetle fiesta focus visa discover ally matrix
	steam tinder paint hinge cologne her queen cream kiss yes genesis europe boston kansas asia america journey foreigner toto
	acts numbers judges kings romans job mass lent bible lord god cat sky sun star mirror guardian times post economist
	sie ihr ihre ihnen ihren ihrem ihrer weg essen arm reich morgen labour labor liberal conservative republican democrat green independent catholic orthodox`)

// acronyms are words otherwise, and are told from them in a text that is all capitals by keeping theirs.
var acronyms = set(`us aids era arm ram rom pet pat dos mac mad sad pad led lead car cat dot fax gap hip hot ice ill ira jam lap map nap nice
	pan pep pin pip pop rest rip sam sap set sim sip soap start tan tap tea tip top van vat lamp spa seal swat wan wet step`)

// caseUnits are, in small letters, units of which case makes others: bits and bytes, milli and mega.
var caseUnits = set(`kib mib gib tib kbps mbps gbps mwh kwh mpa`)

// wording are words by which a text is about words: then how it is written is what it asks about, or what is to be worked on.
var wording = set(`define definition contraction contractions apostrophe apostrophes quotes quotation comma commas dash hyphen
	unicode ascii regex regexp pattern wildcard glob operator symbol symbols capitals slang
	formal informal whitespace fullwidth halfwidth polite politely courtesy rude nullable optional method function
	ruby swift kotlin dart scheme lisp clojure typescript elixir rust
	say says said saying translate translates translated translation translating spell spells spelled spelt spelling pronounce
	pronunciation word words phrase phrases mean means meaning synonym synonyms antonym antonyms rhyme rhymes grammar grammatical grammatically
	letter letters character characters vowel vowels syllable syllables proofread rewrite rephrase paraphrase reword punctuation capitalize capitalise capitalization uppercase lowercase typo typos sentence quote acronym abbreviation
	abbreviate stands called idiom etymology plural singular article anagram palindrome lyrics titled
	übersetze übersetzen übersetzung übersetz heißt heisst bedeutet bedeutung buchstabiere wort wörter korrigiere satz
	traduis traduire traduisez traduction dire signifie mot mots corrige corriger phrase épeler
	traduce traducir traduzca traducción significa palabra palabras corrige corregir decir frase
	traduci tradurre significato parola parole correggi dire traduz traduzir tradução palavra palavras corrija
	vertaal betekent woord`)

// spacing is what a text has that is about spaces.
var spacing = []string{"space", "spacing", "tab", "indent", "column", "空白"}

// wordingSigns are the same in scripts without spaces.
var wordingSigns = []string{"全角", "半角", "記号", "句読点", "标点", "翻訳", "訳し", "意味", "言葉", "添削", "校正", "直して", "読み方", "翻译", "翻譯", "意思", "怎么说", "怎麼說", "修改", "改写", "校对", "단어", "번역", "뜻", "교정"}

// composing are words by which a text asks for a text, whose last words may stand at its end.
var composing = set(`ask order request beg answer respond shout sing yell whisper add end finish close type write draft compose email message letter card note sign send text reply schreibe schreib écris écrivez escribe escriba scrivi escreva`)

// nowWords make a question one of its time.
var nowWords = set(`today today's tonight tonight's tomorrow tomorrow's yesterday yesterday's now nowadays currently current latest recent recently newest
	upcoming ago soon presently lately
	heute gestern morgen jetzt aktuell aktuelle aktuellen aktueller aktuelles derzeit gerade neueste neuesten neulich kürzlich
	aujourd'hui hier demain maintenant actuellement actuel actuelle actuels récent récente récemment dernier dernière dernières derniers
	hoy ayer mañana ahora actualmente actuales último última últimos últimas reciente recientes recientemente
	oggi ieri domani adesso ora attualmente attuale ultimo ultima ultime ultimi recente recenti
	hoje ontem amanhã agora atualmente atual últimas últimos vandaag gisteren nu momenteel huidige
	сегодня вчера завтра сейчас текущий последние dziś dzisiaj wczoraj jutro teraz bugün dün yarın şimdi
	오늘 내일 어제 지금 현재 최근 최신 اليوم غدا أمس الآن`)

// nowPhrases are words of which the pair is of its time.
var nowWhich, nowUnits = set(`this last next past coming previous`), set(`second minute hour day morning afternoon evening night week weekend month
	quarter year decade season monday tuesday wednesday thursday friday saturday sunday january february march april may june july
	august september october november december spring summer autumn fall winter week's month's year's time`)

// nowSigns are the same in scripts without spaces.
var nowSigns = []string{"今", "昨日", "昨天", "明日", "明天", "本日", "现在", "現在", "目前", "最新", "最近", "去年", "来年", "明年", "昨年", "来週", "先週", "来月", "先月", "本周", "下周", "上周", "上週", "下週", "這週", "这周"}

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

// pairs makes a map of words that stand in pairs.
func pairs(words string) map[string]string {
	out := map[string]string{}
	f := strings.Fields(words)
	for i := 0; i+1 < len(f); i += 2 {
		out[f[i]] = f[i+1]
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

// englishOnly are words that hardly stand in a text of another language with Latin letters.
var englishOnly = set(`the what how does with and you when where why who which this from should would please your
	there their they have because about than then could whose whom tell write show explain give`)

// names are words that mean something else with a capital: countries, firms, products, organisations, months, languages of
// programmers and of people. At the beginning of a sentence the capital does not tell.
var names = set(`turkey polish march may august china chad
	apple amazon meta target gap shell orange oracle go swift rust julia basic pascal dart elixir scratch lisp
	word excel access teams windows office outlook edge chrome safari opera brave explorer drive slack zoom notion linear
	discord signal telegram twitter snap square stripe block spring spark flask express react ember rails
	puppet chef salt ant maven make fish shell mint arch debian fedora mercury
	reading nice bath cork split mobile bill mark frank rose grace hope faith joy will rob pat sue art dick john jack
	dawn iris lily daisy violet amber crystal ginger basil olive pearl jade summer mike drew chase grant
	hunter mason cooper carter parker taylor baker cook smith king bishop pope bush rice wood stone brown black white green
	gray grey gates jobs musk ford lincoln dodge jaguar puma mustang beetle fiesta focus visa discover ally matrix
	acts numbers judges kings romans job mass lent bible lord god cat sky sun star mirror guardian times post economist
	sie ihr ihre ihnen ihren ihrem ihrer weg essen arm reich morgen labour labor liberal conservative republican democrat green independent catholic orthodox`)

// beings are names that nobody takes for another word, whatever their case, unless an article stands before them.
var beings = set(`python java ruby perl docker gradle bash angular vue django kotlin scala kubernetes linux android`)

// acronyms are words otherwise, and are told from them by being written in capitals alone.
var acronyms = set(`us it who aids nasa era arm ram rom pet pat dos mac pc ai or pa ma mi hi oh ok in me id ca de al la va wa md ms
	mo nd ne sd ct ga ky ad bc ce at as is be so no go do to an if mad sad pad led lead car cat dot fax gap hip hot how
	ice ill ira jam lap map nap nice now one pan pep pin pip pop rest rip sam sap set sim sip soap start tan tap tea tip top two vat
	wan was wet step`)

// pronouns take 're, 've, 'll and 'm.
var pronouns = set(`i you we they he she it who what that there`)

// contractions written out; what is theirs by rule ("n't", "'re") is not among them. "'s" may be "has" or a possession, and is
// written out only behind words that own nothing.
var contractions = phrases(`can't: can not; cannot: can not; won't: will not; shan't: shall not; ain't: is not; what's: what is; whats: what is;
	where's: where is; wheres: where is; how's: how is; when's: when is; why's: why is; that's: that is; there's: there is; it's: it is;
	let's: let us; here's: here is; dont: do not; doesnt: does not; didnt: did not; isnt: is not; arent: are not; wasnt: was not;
	werent: were not; couldnt: could not; shouldnt: should not; wouldnt: would not; hasnt: has not; havent: have not; hadnt: had not;
	gonna: going to; wanna: want to`)

// numbers spelt out.
var numbers = map[string]int{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
	"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
	"eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}

// currencies that one sign and one code name.
var currencies = pairs(`€ eur eur eur euro eur euros eur £ gbp gbp gbp`)

// caseUnits are told apart by case alone: bits and bytes, milli and mega.
var caseUnits = set(`kb mb gb tb pb kbps mbps gbps mw mwh mv ma mpa mj`)

// unitNames are units written out, where a number stands before them.
var unitNames = pairs(`kilometer km kilometers km kilometre km kilometres km centimeter cm centimeters cm centimetre cm centimetres cm
	millimeter mm millimeters mm millimetre mm millimetres mm kilogram kg kilograms kg gram g grams g milligram mg milligrams mg
	milliliter ml milliliters ml millilitre ml millilitres ml kilobyte kB kilobytes kB megabyte MB megabytes MB gigabyte GB gigabytes GB
	terabyte TB terabytes TB millisecond ms milliseconds ms`)

// units that stand close to their numbers. Their case counts: Mb and MB, mW and MW.
var units = set(`kg g mg µg t km m cm mm nm µm mi ft yd lb lbs oz l ml cl dl gal h hr hrs min mins s sec secs ms µs ns
	B kB KB MB GB TB PB kb Mb Gb mb gb tb Kb KiB MiB GiB TiB kbps Mbps Gbps mbps gbps Hz kHz MHz GHz W kW MW GW kWh MWh mW V kV mV A mA
	J kJ MJ N Pa kPa hPa MPa bar psi K °C °F C F px pt em rem mph kmh x k`)

// spellings of one word. Not here are those that are two words to some: cheque and check, metre and meter, programme and
// program, practise and practice, tyre and tire, storey and story, draught and draft.
var spellings = pairs(`colour color colours colors coloured colored colouring coloring favourite favorite favourites favorites flavour flavor
	flavours flavors behaviour behavior behaviours behaviors neighbour neighbor neighbours neighbors harbour harbor honour honor
	humour humor rumour rumor rumours rumors vapour vapor odour odor tumour tumor tumours tumors armour armor centre center centres centers
	theatre theater theatres theaters litre liter litres liters fibre fiber fibres fibers catalogue catalog catalogues catalogs
	dialogue dialog dialogues dialogs analogue analog defence defense offence offense grey gray jewellery jewelry aluminium aluminum
	travelling traveling travelled traveled traveller traveler travellers travelers cancelled canceled cancelling canceling modelling modeling
	modelled modeled labelling labeling labelled labeled analyse analyze analysed analyzed analysing analyzing paralyse paralyze
	catalyse catalyze mould mold moulds molds plough plow sceptical skeptical yoghurt yogurt doughnut donut doughnuts donuts
	pyjamas pajamas enrol enroll enrolment enrollment fulfil fulfill skilful skillful instalment installment ageing aging artefact artifact
	artefacts artifacts maths math mum mom moustache mustache encyclopaedia encyclopedia anaemia anemia diarrhoea diarrhea oesophagus esophagus
	paediatric pediatric foetus fetus leukaemia leukemia haemoglobin hemoglobin orthopaedic orthopedic gynaecologist gynecologist
	e-mail email e-mails emails e-mailed emailed web-site website on-line online off-line offline okay ok wi-fi wifi wi-fis wifis
	plz please pls please thx thanks u.s us` + exact + ` u.s.a usa u.k uk`)

// iseStems are those of verbs that are spelt -ise or -ize. Verbs spelt -ise only (advise, exercise, revise) are not.
var iseStems = set(`organ real recogn summar optim minim maxim analy priorit categor custom author standard normal serial initial visual
	local global apolog emphas critic memor util modern general special capital central character civil final formal
	item legal mobil neutral popular public stabil symbol synchron token vector virtual reorgan deserial random sanit
	parameter modular container anonym harmon hypothes immun ital jeopard penal personal polar revolutional revolution rational
	subsid sympath theor vandal victim crystall digit fertil idol industrial itemi monet national pressur steril terror vapor computer
	equal energ econom familiar material maxim mechan motor organis patron pasteur satir scrutin social special trauma tranquil`)

// afterArticle never stand behind an article: what looks like one there is a letter.
var afterArticle = set(`in on at from to into is are was were be and or with of for by as if than that then the a an not does do has have when where
	how why what who which can will`)

// symmetric are nouns of which it is the same whether they are between one and another, or the other and the one.
var symmetric = set(`difference differences distance similarity similarities`)

// safePlurals are nouns of which one and many ask the same where no article and no number stands before them.
var safePlurals = set(`list file string array image photo recipe dictionary function loop table column cookie cake egg tomato potato email
	password error idea pancake website server database query variable dependency component image video song book car
	plant tree dog cat chicken flower shoe shirt printer keyboard laptop phone tablet algorithm regex expression pdf url api
	pointer thread process exception test class object method integer number date timestamp vector matrix graph tuple dataframe`)

// determiners make one or many of a noun count.
var determiners = set(`the a an my your his her its our their this that these those all each every some any both no many much few several
	which what another other either neither one two own such more most same only first last next two of`)

// wording are words by which a text is about words: then how it is written is what it asks about, or what is to be worked on.
var wording = set(`say says said saying translate translates translated translation translating spell spells spelled spelt spelling pronounce
	pronunciation word words phrase phrases mean means meaning synonym synonyms antonym antonyms rhyme rhymes grammar grammatical grammatically
	letter letters character characters vowel vowels syllable syllables proofread rewrite rephrase paraphrase reword punctuation capitalize capitalise capitalization uppercase lowercase typo typos sentence quote acronym abbreviation
	abbreviate stands called idiom etymology plural singular article anagram palindrome lyrics titled
	übersetze übersetzen übersetzung übersetz heißt heisst bedeutet bedeutung buchstabiere wort wörter korrigiere satz
	traduis traduire traduisez traduction dire signifie mot mots corrige corriger phrase épeler
	traduce traducir traduzca traducción significa palabra palabras corrige corregir decir frase
	traduci tradurre significato parola parole correggi dire traduz traduzir tradução palavra palavras corrija
	vertaal betekent woord`)

// working are words by which a text is about words where some follow: behind a colon, or on lines of their own.
var working = set(`correct corrected fix edit edited improve polish format title reply respond answer comment review check korrigiere prüfe
	corrige corriger corregir vérifie relis responde correggi controlla corrija`)

// wordingSigns are the same in scripts without spaces.
var wordingSigns = []string{"翻訳", "訳し", "意味", "言葉", "添削", "校正", "直して", "読み方", "翻译", "翻譯", "意思", "怎么说", "怎麼說", "修改", "改写", "校对", "단어", "번역", "뜻", "교정"}

// composing are words by which a text asks for a text, whose last words may stand at its end.
var composing = set(`write draft compose email message letter card note sign send text reply schreibe schreib écris écrivez escribe escriba scrivi escreva`)

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

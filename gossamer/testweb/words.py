"""This module holds the vocabulary of the synthetic web: five languages, twelve topics, everyday words."""

LANGUAGES = ("en", "fr", "de", "es", "ru")

# Every word can be written in its language's old charset too (see CHARSETS).
CHARSETS = {"en": "windows-1252", "fr": "iso-8859-1", "de": "windows-1252", "es": "iso-8859-1", "ru": "windows-1251"}

COMMON = {
    "en": "the a of and in to with for on from by about between every some many few old new small large first last "
    "often never always here there once again people place year day time way work thing part hand house water "
    "makes finds takes shows keeps becomes remains follows holds begins seems needs brings known found made",
    "fr": "le la les un une de du des et dans avec pour sur par entre chaque quelques plusieurs ancien nouveau petit "
    "grand premier dernier souvent jamais toujours ici encore gens lieu année jour temps façon travail chose part "
    "main maison eau fait trouve prend montre garde devient reste suit tient commence semble connu été très près",
    "de": "der die das ein eine und in mit für auf von durch zwischen jeder einige viele wenige alt neu klein groß "
    "erste letzte oft nie immer hier dort wieder Leute Ort Jahr Tag Zeit Weg Arbeit Ding Teil Hand Haus Wasser "
    "macht findet nimmt zeigt hält wird bleibt folgt beginnt scheint braucht bringt bekannt gefunden schön über",
    "es": "el la los las un una de y en con para sobre por entre cada algunos muchos pocos viejo nuevo pequeño "
    "grande primero último siempre nunca aquí allí otra vez gente lugar año día tiempo camino trabajo cosa parte "
    "mano casa agua hace encuentra toma muestra guarda resulta queda sigue tiene empieza parece conocido también",
    "ru": "и в на с для о по от между каждый некоторые многие старый новый малый большой первый последний часто "
    "никогда всегда здесь там снова люди место год день время путь работа вещь часть рука дом вода делает "
    "находит берёт хранит становится остаётся следует держит начинает кажется известно найдено очень",
}

TOPICS = (
    "astronomy", "birds", "chess", "cooking", "cycling", "gardening",
    "geology", "history", "medicine", "music", "sailing", "weaving",
)  # fmt: skip

# One line per topic, in the order of TOPICS; the first word is the topic's name in that language, eight more follow.
TOPIC_WORDS = {
    "en": (
        "astronomy star comet orbit telescope galaxy eclipse planet moon",
        "birds heron nest feather migration wing song falcon meadow",
        "chess bishop rook opening endgame gambit pawn knight checkmate",
        "cooking oven bread garlic simmer recipe spice butter kitchen",
        "cycling wheel chain saddle climb gear pedal tour sprint",
        "gardening seed soil rose compost spade greenhouse bulb hedge",
        "geology granite fault basalt sediment crystal glacier quartz ridge",
        "history empire treaty archive king harbour chronicle siege coin",
        "medicine nurse remedy fever surgeon pulse clinic vaccine bone",
        "music violin chord rhythm choir melody opera drum string",
        "sailing mast rudder anchor tide knot harbour keel wind",
        "weaving loom thread silk gossamer shuttle pattern wool linen",
    ),
    "fr": (
        "astronomie étoile comète orbite télescope galaxie éclipse planète lune",
        "oiseaux héron nid plume migration aile chant faucon prairie",
        "échecs fou tour ouverture finale gambit pion cavalier mat",
        "cuisine four pain ail mijoter recette épice beurre casserole",
        "cyclisme roue chaîne selle montée vitesse pédale étape sprint",
        "jardinage graine terre rose compost bêche serre bulbe haie",
        "géologie granite faille basalte sédiment cristal glacier quartz crête",
        "histoire empire traité archives roi port chronique siège monnaie",
        "médecine infirmière remède fièvre chirurgien pouls clinique vaccin os",
        "musique violon accord rythme chorale mélodie opéra tambour corde",
        "voile mât gouvernail ancre marée noeud rade quille vent",
        "tissage métier fil soie navette motif laine lin trame",
    ),
    "de": (
        "Astronomie Stern Komet Umlaufbahn Fernrohr Galaxie Finsternis Planet Mond",
        "Vögel Reiher Nest Feder Vogelzug Flügel Gesang Falke Wiese",
        "Schach Läufer Turm Eröffnung Endspiel Gambit Bauer Springer Matt",
        "Kochen Ofen Brot Knoblauch köcheln Rezept Gewürz Butter Küche",
        "Radfahren Rad Kette Sattel Anstieg Gang Pedal Etappe Spurt",
        "Garten Samen Erde Rose Kompost Spaten Gewächshaus Zwiebel Hecke",
        "Geologie Granit Verwerfung Basalt Sediment Kristall Gletscher Quarz Grat",
        "Geschichte Reich Vertrag Archiv König Hafen Chronik Belagerung Münze",
        "Medizin Pflege Heilmittel Fieber Chirurg Puls Klinik Impfung Knochen",
        "Musik Geige Akkord Rhythmus Chor Melodie Oper Trommel Saite",
        "Segeln Mast Ruder Anker Gezeiten Knoten Bucht Kiel Wind",
        "Weben Webstuhl Faden Seide Schiffchen Muster Wolle Leinen Gewebe",
    ),
    "es": (
        "astronomía estrella cometa órbita telescopio galaxia eclipse planeta luna",
        "aves garza nido pluma migración ala canto halcón prado",
        "ajedrez alfil torre apertura final gambito peón caballo mate",
        "cocina horno pan ajo hervir receta especia mantequilla olla",
        "ciclismo rueda cadena sillín subida marcha pedal etapa esprint",
        "jardinería semilla tierra rosa abono pala invernadero bulbo seto",
        "geología granito falla basalto sedimento cristal glaciar cuarzo cresta",
        "historia imperio tratado archivo rey puerto crónica asedio moneda",
        "medicina enfermera remedio fiebre cirujano pulso clínica vacuna hueso",
        "música violín acorde ritmo coro melodía ópera tambor cuerda",
        "vela mástil timón ancla marea nudo bahía quilla viento",
        "tejido telar hilo seda lanzadera patrón lana lino trama",
    ),
    "ru": (
        "астрономия звезда комета орбита телескоп галактика затмение планета луна",
        "птицы цапля гнездо перо перелёт крыло песня сокол луг",
        "шахматы слон ладья дебют эндшпиль гамбит пешка конь мат",
        "кухня печь хлеб чеснок варить рецепт пряность масло кастрюля",
        "велоспорт колесо цепь седло подъём передача педаль этап рывок",
        "сад семя почва роза компост лопата теплица луковица изгородь",
        "геология гранит разлом базальт осадок кристалл ледник кварц хребет",
        "история империя договор архив король гавань летопись осада монета",
        "медицина сестра лекарство жар хирург пульс клиника вакцина кость",
        "музыка скрипка аккорд ритм хор мелодия опера барабан струна",
        "парус мачта руль якорь прилив узел бухта киль ветер",
        "ткачество станок нить шёлк челнок узор шерсть лён паутина",
    ),
}

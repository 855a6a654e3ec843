"""What volatile text looks like, and what the lines around it speak of. Two tables.

A pattern matches a span that changes by itself; its cause says which class such a change is. All run in linear time:
no repetition stands inside another, and what is repeated is bounded or ends at what cannot be in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MONTHS = "|".join(
    (
        r"Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|(?-i:May|MAY)(?!\s[a-z]{2,}\b)|June?|July?|Aug(?:ust)?",
        r"Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?",
        "enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre",
        "janvier|f[ée]vrier|mars|avril|mai|juin|juillet|ao[ûu]t|septembre|octobre|novembre|d[ée]cembre",
        "Januar|Jänner|Februar|März|Juni|Juli|Oktober|Dezember|Okt|Dez|Mrz",
        "janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro",
        "gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre",
        "januari|februari|maart|mei|augustus|maj|marts|augusti|desember",
        "stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|września|października|listopada|grudnia",
        "ledna|února|března|dubna|května|června|července|srpna|října|listopadu|prosince",
        "január|február|március|április|május|június|július|augusztus|szeptember|október",
        "ianuarie|februarie|martie|aprilie|iunie|iulie|septembrie|octombrie|noiembrie|decembrie",
        "Ocak|Şubat|Mart|Nisan|Mayıs|Haziran|Temmuz|Ağustos|Eylül|Ekim|Kasım|Aralık|Maret|Agustus",
        "tammikuuta|helmikuuta|maaliskuuta|huhtikuuta|toukokuuta|kesäkuuta|heinäkuuta|elokuuta|syyskuuta",
        "lokakuuta|marraskuuta|joulukuuta",
        "января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря",
        "січня|лютого|березня|квітня|травня|червня|липня|серпня|вересня|жовтня|листопада|грудня",
        "Ιανουαρίου|Φεβρουαρίου|Μαρτίου|Απριλίου|Μαΐου|Ιουνίου|Ιουλίου|Αυγούστου|Σεπτεμβρίου|Οκτωβρίου|Νοεμβρίου",
        "Δεκεμβρίου|يناير|فبراير|مارس|أبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر",
        "जनवरी|फ़रवरी|फरवरी|मार्च|अप्रैल|मई|जून|जुलाई|अगस्त|सितंबर|अक्टूबर|नवंबर|दिसंबर",
    )
)
_ABROAD = "|".join(
    (
        "lunes|martes|miércoles|jueves|viernes|sábado|domingo|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
        "Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonnabend|Sonntag",
        "segunda-feira|terça-feira|quarta-feira|quinta-feira|sexta-feira",
        "lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica",
        "maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag",
        "poniedziałek|wtorek|środa|czwartek|piątek|sobota|niedziela",
        "понедельник|вторник|среда|четверг|пятница|суббота|воскресенье",
    )
)
_WEEKDAYS = r"Mon(?:day)?|Tue(?:s(?:day)?)?|Wed(?:nesday)?|Thu(?:rs?(?:day)?)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"
_MONTH = rf"(?:{_MONTHS})\.?"
_DAY = rf"(?:(?:{_WEEKDAYS}|{_ABROAD})[.,]{{0,2}}\s{{1,3}}(?:(?:der|den|le|el|il|the)\s)?)?"
_D, _M, _Y = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])", r"(?:19|20)\d{2}"
_NTH = rf"{_D}(?:st|nd|rd|th|er|[ºª°.])?"
_YEAR = rf"(?:,?\s{{1,2}}(?:de\s|del\s)?{_Y}\b(?:\s?[гrр]\.)?)?"
_ZONES = "Z|UTC|GMT|CES?T|EES?T|WES?T|[ECMP][SD]T|BST|IST|JST|KST|MSK|A[EW][SD]T|NZ[SD]T|SGT|HKT|BRT|SAST"
_PLACES = r"(?:Africa|America|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[A-Z][A-Za-z_]{1,30}"
_OFFSET = r"(?:UTC|GMT)[+-]\d{1,2}(?::?\d{2})?|[+-](?:0\d|1[0-4])(?::?\d{2})?"
_ZONE = rf"(?:\s?[(\[]?(?:{_OFFSET}|{_ZONES}|{_PLACES})\b[)\]]?){{0,2}}+"
_HALF = r"(?:\s?(?:[AaPp][Mm]\b|[AaPp]\.[Mm]\.))?+"
_TIME = rf"(?:(?:[01]?\d|2[0-3]):[0-5]\d|24:00)(?::[0-5]\d(?:[.,]\d{{1,9}})?)?+{_HALF}{_ZONE}"
_ISO_TIME = rf"[T ]\d{{2}}(?!\d)(?::\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?)?{_ZONE}"
_AT = rf"(?:,?\s{{1,3}}(?:(?:at|um|à|a las|alle|às|om|в|kl\.?)\s)?{_TIME})?"
_HAN_DAY = r"(?:\s?[（(]?(?:(?:星期|周|週)[一二三四五六日天]|[月火水木金土日](?:曜日?|(?!\w)))[)）]?)?"
_HAN_TIME = r"(?:\s?(?:上午|下午|午前|午後)?\s?\d{1,2}[時时点點:]\s?\d{1,2}分?(?:\s?\d{1,2}秒)?)?"
_KOREAN_TIME = r"(?:\s?(?:오전|오후)?\s?\d{1,2}[시:](?:\s?\d{1,2}분?)?)?"
_PATH = r"[`'\"]?[/~\w.:\\-]+[`'\"]?"
_COUNT = r"\d[\d,._]{0,20}"
_COUNTED = r"(?:token|turn|step|credit|message|request|call|attempt|iteration)s?"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One look of volatile text."""

    cause: str
    name: str
    regex: re.Pattern[str]


_ROWS = (
    ("S1", "iso date and time", rf"\b\d{{4}}-(?:0\d|1[0-2])-[0-3]\d(?:{_ISO_TIME})?(?![\w-])"),
    ("S1", "compact date and time", rf"\b{_Y}(?:0[1-9]|1[0-2])[0-3]\d[T_-][0-2]\d[0-5]\d(?:[0-5]\d)?Z?\b"),
    ("S1", "iso week or quarter", rf"\b{_Y}-?(?:W\d{{2}}(?:-\d)?|Q[1-4])\b|\bQ[1-4][ /]{_Y}\b"),
    ("S1", "written date", rf"(?i:\b{_DAY}(?:{_NTH}\s{{1,2}}(?:de\s|d'|of\s)?{_MONTH}|{_MONTH}\s{{1,2}}{_NTH})"
                           rf"(?!\w){_YEAR}){_AT}"),
    ("S1", "date with a short month", rf"(?i:\b{_DAY}{_NTH}[-/ ]{_MONTH}[-/ ](?:{_Y}|\d{{2}})\b){_AT}"),
    ("S1", "year before the month", rf"(?i:\b{_Y}\.?[ -]{_MONTH}[ -]{_NTH}(?!\w)){_AT}"),
    ("S1", "unix date", rf"\b(?:{_WEEKDAYS}) {_MONTH} [ \d]\d {_TIME} \d{{4}}\b"),
    ("S1", "han date", rf"\d{{4}}\s?年\s?\d{{1,2}}\s?月\s?\d{{1,2}}\s?[日号]{_HAN_DAY}{_HAN_TIME}"),
    ("S1", "korean date", r"\d{4}년\s?\d{1,2}월\s?\d{1,2}일(?:\s?\(?[월화수목금토일](?:요일)?\)?)?" + _KOREAN_TIME),
    ("S1", "vietnamese date", rf"\b(?:ngày )?{_D} tháng {_M},? (?:năm )?{_Y}\b"),
    ("S1", "slashed date", rf"(?<![\d/.])(?:{_D}/{_D}/(?:{_Y}|\d{{2}})|{_Y}/{_M}/{_D})(?![\d/]){_AT}"),
    ("S1", "dotted date", rf"(?<![\d.])(?:{_D}\. ?{_M}\. ?{_Y}|{_Y}\.(?:0[1-9]|1[0-2])\.{_D})(?!\d|\.\d){_AT}"),
    ("S1", "dashed date", rf"(?<![\w.-]){_D}-{_D}-{_Y}(?![\w-]){_AT}"),
    ("S1", "clock", r"(?<![\d:.])(?<!\w\[)(?<!:\d\d[-–])(?<!:\d\d [-–] )(?<!atio )(?<!atio of )(?<![Ss]cale )"
                    r"(?!\d{1,2}:\d\d\s?[-–]\s?\d{1,2}:\d\d)" rf"{_TIME}(?!\w|[:–-]\d|,\d{{3}}| [-–] \d{{1,2}}:\d\d)"),
    ("S1", "hour of half a day", rf"(?<![\d:.$-])\b(?:1[0-2]|[1-9])\s?(?:[ap]m\b|[AP]M\b|[ap]\.m\.){_ZONE}"),
    ("S1", "clock with a letter", r"(?<![\w:.])(?:[01]?\d|2[0-4])\s?(?:h|Uhr)\s?[0-5]\d(?!\w)"
                                  r"|(?:(?:上午|下午|午前|午後)\s?)?\d{1,2}[時时点點]\s?\d{1,2}分"
                                  r"|(?:오전|오후)\s?\d{1,2}시(?:\s?\d{1,2}분)?"),
    ("S1", "month and year", rf"(?i:\b{_MONTH},?\s(?:de\s)?{_Y}\b)"),
    ("S1", "day of the week, elsewhere", rf"(?<!\w)(?:{_ABROAD})(?!\w)|[월화수목금토일]요일|[月火水木金土日]曜日"
                                         r"|(?:星期|礼拜|(?<![一-十每几两])[周週])[一二三四五六日天](?![一-龥])"),
    ("S1", "day of the week", r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"),
    ("S1", "time ago", r"\b(?:\d{1,9}|an?|a few)\s(?:second|sec|minute|min|hour|day|week|month)s?\sago\b"),
    ("S1", "unix time", r"(?<![\w.+-])1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d{1,9})?(?!\w|\.\d)"),
    ("S2", "uuid", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"),
    ("S2", "ulid", r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"),
    ("S2", "trace parent", r"\b00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]\b"),
    ("S2", "hex id", r"\b(?=[a-f]{0,63}\d)(?=\d{0,63}[a-f])[0-9a-f]{12,64}\b"),
    ("S2", "id with a prefix",
     r"\b(?:conv|req|msg|sess|sid|session|run|trace|span|thread|resp|call|chatcmpl|cmpl|evt|job|task|toolu|asst|usr|"
     r"wrk|sbx|batch|gen|txn|corr|inv|exec|worker|container|pod)[_-](?=[A-Za-z]{0,63}\d[A-Za-z0-9])[A-Za-z0-9]{8,64}\b"),
    ("S2", "request or session id",
     r"(?i)\b(?:(?:request|session|trace|run|req|correlation|conversation|invocation|span|transaction|message|thread|"
     r"execution|job|instance)[-_ ]?id|nonce|etag)\b[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?!string|number|uuid)[\w.-]{4,80}"),
    ("S3", "counter", rf"(?i)(?<![\d,._]){_COUNT}(?=\s{{0,3}}(?:/\s{{0,3}}{_COUNT}\s{{0,3}})?"
                      rf"{_COUNTED}\s(?:left|remaining|used|so far)\b)"),
    ("S3", "counter behind its name",
     rf"(?i)\b(?:(?:{_COUNTED}|context|budget)\s(?:left|remaining|used|count)"
     rf"|(?:remaining|used|left|current)\s(?:{_COUNTED}|context|budget))"
     rf"\s{{0,3}}[:=]\s{{0,3}}{_COUNT}(?:\s?/\s?{_COUNT}|\s?%)?"),
    ("S3", "turn", rf"(?i)\b(?:turn|step|iteration|attempt|round|message|request)\s(?:#\s?)?"
                   rf"(?:{_COUNT}(?:\s?/\s?|\sof\s){_COUNT}|(?<=turn\s)\d{{1,6}})\b"),
    ("S3", "working directory",
     r"(?i)\b(?:cwd|pwd|(?:working|current|project|root|home|workspace)[ -]?(?:directory|dir|folder|path)"
     r"|(?:project|workspace|repo) root)\b"
     rf"(?:(?:\sis\s{{1,2}}|\s{{0,3}}[:=]\s{{0,3}}){_PATH}|\s{{1,2}}[`'\"]?(?:[/~]|[a-z]:\\)[/~\w.\\-]*)"),
    ("S3", "git state",
     r"(?im)^[ \t]{0,8}(?:[-*][ \t])?(?:(?:git|current)[ \t])?(?:branch|status|head|(?:last|latest|recent)[ \t]"
     r"commits?)[ \t]{0,3}[:=].*$|^(?: [MADRCU]|[MADRCU?!][ MADRCU?!]) \S+$|\bon branch [\w./-]{1,80}"
     r"|^your branch is .*$|\b(?:ahead|behind) by \d{1,6} commits?\b"),
    ("S3", "commit", r"(?m)\b(?:commit|HEAD|revision|rev|sha)[ :=@]{1,3}(?=[a-f]{0,39}\d)[0-9a-f]{7,40}\b"
                     r"|^(?:[-*] )?(?=[a-f]{0,11}\d)(?=\d{0,11}[a-f])[0-9a-f]{7,11} (?=[A-Z(])"),
    ("S3", "temporary path",
     r"(?:/tmp|/var/tmp|/var/folders|/private/tmp|/private/var/folders|/dev/shm|/run/user/\d{1,9}"
     r"|[A-Z]:\\(?:Windows\\)?Temp|[A-Z]:\\Users\\[^\\\s]{1,64}\\AppData\\Local\\Temp|%TEMP%|\$TMPDIR)[/\\][\w.+/\\-]+"),
    ("S3", "host", r"(?i)\b(?:host(?:name)?|machine|p?pid|port|(?:client |server )?ip(?: address)?|remote addr(?:ess)?)"
                   r"\s{0,3}[:=]\s{0,3}[\w.:-]{1,80}"),
    ("S3", "state of the machine",
     r"(?i)\b(?:up ?time|battery(?: level)?|load(?: averages?)?|cpu (?:usage|load)|memory (?:usage|used|free)|"
     r"free memory|disk (?:usage|free)|free disk(?: space)?)\s{0,3}[:=]\s{0,3}\d(?:[\w.,:%/]|[ ](?=\S)){0,40}"
     r"|\bup \d{1,5} (?:days?|hours?|min(?:utes)?)(?:, {1,2}\d{1,2}:\d{2})?"),
    ("S3", "file listing", r"(?m)^[dlbcps-](?:[r-][w-][xsStT-]){3}[.+@]?\s.{1,200}$|^total \d{1,9}$"),
)  # fmt: skip


PATTERNS: tuple[Pattern, ...] = tuple(Pattern(cause, name, re.compile(regex)) for cause, name, regex in _ROWS)


HINTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("S1", re.compile(r"(?i)\b(?:time|date|clock|today|now|timestamp)\b")),
    (
        "S3",
        re.compile(
            r"(?i)\b(?:git ?status|branch|status|cwd|director(?:y|ies)|workspace|working tree|cursor|selection|"
            r"diagnostics|problems|(?:open|recent|recently \w{2,10}|edited|modified|changed) "
            r"(?:files|tabs|documents|commits)|"
            r"tokens?|budget|uptime|battery|load)\b"
        ),
    ),
    (
        "S4",
        re.compile(
            r"(?i)\b(?:memor(?:y|ies)|mem|remember\w*|recall\w*|retriev\w*|knowledge|facts|search results|excerpts|"
            r"relevant (?:documents?|passages?|context|notes?|snippets?))\b"
        ),
    ),
    (
        "S6",
        re.compile(
            r"(?i)\b(?:mode|channel|surface|persona|output style|reply via|respond via|tone|platform|interface|"
            r"audience)\b"
        ),
    ),
)
"""What a line speaks of, or the heading above it: for a change that does not look volatile by itself."""

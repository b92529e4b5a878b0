//! The strftime of the C locale in UTC, for strftime_now of chat templates.

const DAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const CUMULATIVE_DAYS: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

struct Moment {
    year: i64,
    month: u32, // 1..=12
    day: u32,   // 1..=31
    hour: u32,
    minute: u32,
    second: u32,
    weekday: usize, // of DAYS; the epoch was a Thursday
}

impl Moment {
    /// The civil date and time of a Unix time, after Howard Hinnant,
    /// "chrono-Compatible Low-Level Date Algorithms".
    fn from_unix(seconds: f64) -> Self {
        let seconds = seconds.clamp(-6e10, 2.5e11).floor() as i64;
        let days = seconds.div_euclid(86_400);
        let rest = seconds.rem_euclid(86_400) as u32;
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Moment {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as u32,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: days.rem_euclid(7) as usize,
        }
    }

    fn day_of_year(&self) -> u32 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let leap_day = u32::from(leap && self.month > 2);
        CUMULATIVE_DAYS[self.month as usize - 1] + self.day + leap_day
    }

    fn hour12(&self) -> u32 {
        (self.hour + 11) % 12 + 1
    }

    /// The text of one directive; `padded` is false for the form `%-d`.
    fn directive(&self, letter: char, padded: bool) -> Option<String> {
        let number = |value: u32, width: usize| match padded {
            true => format!("{value:0width$}"),
            false => value.to_string(),
        };
        let month = MONTHS[self.month as usize - 1];
        let day = DAYS[self.weekday];
        Some(match letter {
            'Y' => self.year.to_string(),
            'y' => number(self.year.rem_euclid(100) as u32, 2),
            'm' => number(self.month, 2),
            'd' => number(self.day, 2),
            'e' => format!("{:2}", self.day),
            'B' => month.to_string(),
            'b' | 'h' => month[..3].to_string(),
            'A' => day.to_string(),
            'a' => day[..3].to_string(),
            'j' => number(self.day_of_year(), 3),
            'H' => number(self.hour, 2),
            'I' => number(self.hour12(), 2),
            'M' => number(self.minute, 2),
            'S' => number(self.second, 2),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_string(),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second),
            'Z' => "UTC".to_string(),
            'z' => "+0000".to_string(),
            'n' => "\n".to_string(),
            't' => "\t".to_string(),
            '%' => "%".to_string(),
            _ => return None,
        })
    }
}

pub fn format(format: &str, unix_time: f64) -> Result<String, String> {
    let moment = Moment::from_unix(unix_time);
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut letter = characters.next();
        let padded = letter != Some('-');
        if !padded {
            letter = characters.next();
        }
        let text = letter.and_then(|letter| moment.directive(letter, padded));
        match text {
            Some(text) => out.push_str(&text),
            None => return Err(format!("strftime_now does not know a directive in \"{format}\"")),
        }
    }
    Ok(out)
}
